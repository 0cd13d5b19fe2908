// Decreasing order of scores, ties to the lower index.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/interrupt.hpp"
#include "support/large_array.hpp"
#include "support/tuning.hpp"

namespace hashnms {

// An unsigned integer in the order of the scores, never 0 for a finite score; -0.0 and 0.0 are equal.
template <class Score>
inline auto ordered(Score score) {
  using Bits = std::conditional_t<sizeof(Score) == 4, uint32_t, uint64_t>;
  const Bits bits = std::bit_cast<Bits>(score + Score(0));
  const Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  return bits & sign ? ~bits : bits | sign;
}

// A box's claim to be kept: the greater claim has the higher score or, for equal scores, the lower index. Claim{} means
// no claim and is below all others.
template <class Score>
struct Claim;

template <>
struct Claim<float> {
  uint64_t bits;

  Claim() = default;
  Claim(float score, uint32_t box) : Claim(ranked(ordered(score), box)) {}
  static Claim ranked(uint32_t rank, uint32_t box) {
    Claim claim;
    claim.bits = uint64_t(rank) << 32 | uint32_t(~box);
    return claim;
  }
  uint32_t rank() const { return static_cast<uint32_t>(bits >> 32); }
  uint32_t box() const { return ~static_cast<uint32_t>(bits); }
  bool exists() const { return bits != 0; }
  bool operator<(const Claim& other) const { return bits < other.bits; }
  void raise_to(Claim other) { bits = bits < other.bits ? other.bits : bits; }  // without a branch
};

template <>
struct Claim<double> {
  uint64_t bits;
  uint32_t inverted_box;

  Claim() = default;
  Claim(double score, uint32_t box) : Claim(ranked(ordered(score), box)) {}
  static Claim ranked(uint64_t rank, uint32_t box) {
    Claim claim;
    claim.bits = rank;
    claim.inverted_box = ~box;
    return claim;
  }
  uint64_t rank() const { return bits; }
  uint32_t box() const { return ~inverted_box; }
  bool exists() const { return bits != 0; }
  bool operator<(const Claim& other) const {
    return bits != other.bits ? bits < other.bits : inverted_box < other.inverted_box;
  }
  void raise_to(Claim other) {
    if (*this < other) *this = other;
  }
};

template <class Score>
using Claims = LargeArray<Claim<Score>>;

namespace detail {

// The leading bits of a rank's distance from the greatest, as a two-digit number: the greatest rank comes first.
template <class Rank>
struct RankDigits {
  Rank greatest;
  int dropped_bits, digit_bits;

  size_t prefix(Rank rank) const { return static_cast<size_t>((greatest - rank) >> dropped_bits); }
  size_t low(Rank rank) const { return prefix(rank) & ((size_t(1) << digit_bits) - 1); }
  size_t high(Rank rank) const { return prefix(rank) >> digit_bits; }
};

template <class Item, class Digit>
void distribute(const Item* from, size_t count, std::vector<uint32_t>& starts, Item* to, const Digit& digit) {
  uint32_t total = 0;
  for (uint32_t& start : starts) total += std::exchange(start, total);
  for_each_piece(count, [&](size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) to[starts[digit(from[k])]++] = from[k];
  });
}

}  // namespace detail

// Sorts claims, greatest first. Two passes of radix sort order the leading bits that differ. Runs that agree in these
// bits, such as ties, are short and are then sorted by comparison.
template <class Score>
void sort_claims(Claims<Score>& claims) {
  using Item = Claim<Score>;
  using Rank = decltype(Item().rank());
  const auto greater = [](const Item& a, const Item& b) { return b < a; };
  const size_t count = claims.size();
  if (count < tuning::kFewToSort) return std::sort(claims.begin(), claims.end(), greater);

  Rank least = std::numeric_limits<Rank>::max(), greatest = 0;
  for (const Item& claim : claims) {
    least = std::min(least, claim.rank());
    greatest = std::max(greatest, claim.rank());
  }
  const int bits = static_cast<int>(std::bit_width(static_cast<Rank>(greatest - least)));
  const int digit_bits = count < tuning::kManyToSort ? 11 : 14;
  const detail::RankDigits<Rank> digits{greatest, std::max(0, bits - 2 * digit_bits), digit_bits};
  std::vector<uint32_t> low_counts(size_t(1) << digit_bits), high_counts(size_t(1) << digit_bits);
  for (const Item& claim : claims) {
    ++low_counts[digits.low(claim.rank())];
    ++high_counts[digits.high(claim.rank())];
  }
  LargeArray<Item> buffer(count);
  detail::distribute(claims.data(), count, low_counts, buffer.data(), [&](Item c) { return digits.low(c.rank()); });
  detail::distribute(buffer.data(), count, high_counts, claims.data(), [&](Item c) { return digits.high(c.rank()); });

  for (size_t k = 1; k < count; ++k) {
    if (!(claims[k - 1] < claims[k])) continue;
    const size_t prefix = digits.prefix(claims[k].rank());
    size_t begin = k - 1, end = k + 1;
    while (begin > 0 && digits.prefix(claims[begin - 1].rank()) == prefix) --begin;
    while (end < count && digits.prefix(claims[end].rank()) == prefix) ++end;
    std::sort(claims.begin() + begin, claims.begin() + end, greater);
    k = end;
  }
}

// Moves the greatest claims, up to `most`, to the front, in no particular order; returns where they end.
template <class Score>
Claim<Score>* move_greatest(Claim<Score>* begin, Claim<Score>* end, size_t most) {
  if (static_cast<size_t>(end - begin) <= most) return end;
  std::nth_element(begin, begin + most, end, [](const auto& a, const auto& b) { return b < a; });
  return begin + most;
}

}  // namespace hashnms
