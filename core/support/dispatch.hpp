// Run-time dispatch to wider vectors: a loop is compiled twice, and the CPU's capabilities choose at load time. AVX2
// without FMA: a fused multiply-add would round a product and a sum once instead of twice.
#pragma once

#include <cfloat>
#include <cstddef>

#if defined(__FAST_MATH__)
#error "hashnms relies on NaN and on the order of operations: compile it without fast-math"
#endif
static_assert(FLT_EVAL_METHOD == 0, "float and double must be computed in their own type");
static_assert(sizeof(size_t) == 8, "hashnms is made for 64-bit machines");

#if defined(__x86_64__) && defined(__GLIBC__) && defined(HASHNMS_VECTOR_CLONES_WANTED)
#define HASHNMS_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define HASHNMS_VECTOR_CLONES
#endif

#if defined(__GNUC__) || defined(__clang__)
#define HASHNMS_INLINE inline __attribute__((always_inline))
#define HASHNMS_INLINE_LAMBDA __attribute__((always_inline))
#else
#define HASHNMS_INLINE inline
#define HASHNMS_INLINE_LAMBDA
#endif

namespace hashnms {

// Prefetches the cache line of an address that will soon be used.
inline void prefetch([[maybe_unused]] const void* address) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace hashnms
