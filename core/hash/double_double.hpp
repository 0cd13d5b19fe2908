// Numbers of about 106 bits, as an unevaluated sum of two doubles and a power of two.
//
// The edges of the hash cells must be the same on every machine, and libm's pow is not. Only IEEE +, -, *, /,
// sqrt and fma are used here, each exactly defined, so the result is the same everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace hashnms {

struct DoubleDouble {
  double hi, lo;  // hi in [0.5, 1), |lo| at most half a unit in the last place of hi
  int64_t exponent;
};

inline DoubleDouble normalized(double hi, double lo, int64_t exponent) {
  const double sum = hi + lo;
  const double rest = lo - (sum - hi);
  int shift = 0;
  const double mantissa = std::frexp(sum, &shift);
  return {mantissa, std::ldexp(rest, -shift), exponent + shift};
}

inline DoubleDouble to_double_double(double value) { return normalized(value, 0.0, 0); }

inline DoubleDouble operator*(const DoubleDouble& a, const DoubleDouble& b) {
  const double product = a.hi * b.hi;
  const double error = std::fma(a.hi, b.hi, -product);
  return normalized(product, error + (a.hi * b.lo + a.lo * b.hi), a.exponent + b.exponent);
}

inline DoubleDouble operator/(const DoubleDouble& a, const DoubleDouble& b) {
  const double quotient = a.hi / b.hi;
  const double rest = std::fma(-quotient, b.hi, a.hi) + (a.lo - quotient * b.lo);
  return normalized(quotient, rest / b.hi, a.exponent - b.exponent);
}

inline DoubleDouble square_root(const DoubleDouble& a) {
  const bool odd = a.exponent % 2 != 0;
  const double hi = odd ? 2 * a.hi : a.hi;
  const double lo = odd ? 2 * a.lo : a.lo;
  const double root = std::sqrt(hi);
  const double rest = std::fma(-root, root, hi) + lo;
  return normalized(root, rest / (2 * root), (a.exponent - odd) / 2);
}

inline DoubleDouble power(DoubleDouble base, uint64_t exponent) {
  DoubleDouble result = to_double_double(1.0);
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = result * base;
    base = base * base;
  }
  return result;
}

// The root of degree 1 to 1000 of a number above 0. Newton's method leaves an error near 2^-100, whatever estimate it
// starts from, so the nearest double is the same on every machine.
inline DoubleDouble root(const DoubleDouble& a, uint64_t degree) {
  const double estimate = (std::log2(a.hi) + static_cast<double>(a.exponent)) / static_cast<double>(degree);
  const double whole = std::floor(estimate);
  DoubleDouble x = normalized(std::exp2(estimate - whole), 0.0, static_cast<int64_t>(whole));
  for (int k = 0; k < 3; ++k) {
    const DoubleDouble ratio = a / power(x, degree);  // about 1
    const int exponent = static_cast<int>(ratio.exponent);
    const double excess = (std::ldexp(ratio.hi, exponent) - 1.0) + std::ldexp(ratio.lo, exponent);
    x = x * normalized(1.0, excess / static_cast<double>(degree), 0);
  }
  return x;
}

inline bool operator<(const DoubleDouble& a, const DoubleDouble& b) {  // for numbers above 0
  if (a.exponent != b.exponent) return a.exponent < b.exponent;
  return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
}

// ldexp takes an int; beyond +-4000 every double has become infinite or zero.
inline double scaled(double mantissa, int64_t exponent) {
  return std::ldexp(mantissa, static_cast<int>(exponent > 4000 ? 4000 : exponent < -4000 ? -4000 : exponent));
}

inline double nearest_double(const DoubleDouble& a) { return scaled(a.hi, a.exponent); }

// The least double that is not below a, if that is a normal number: w >= a exactly when w >= rounded_up(a).
inline double rounded_up(const DoubleDouble& a) {
  const double up = a.lo > 0 ? std::nextafter(a.hi, std::numeric_limits<double>::infinity()) : a.hi;
  return scaled(up, a.exponent);
}

}  // namespace hashnms
