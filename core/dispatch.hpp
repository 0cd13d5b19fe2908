// Run-time dispatch to wider vectors: the loop is compiled twice and the CPU's own capabilities choose at load time.
// FMA is left out on purpose: it would round a product and a sum once instead of twice.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && (defined(__GNUC__) || defined(__clang__)) && \
    !defined(HASHNMS_NO_CLONES)
#define HASHNMS_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#define HASHNMS_INLINE inline __attribute__((always_inline))
#else
#define HASHNMS_VECTOR_CLONES
#define HASHNMS_INLINE inline
#endif

namespace hashnms {

// Fetches the cache line of an address that will soon be used.
inline void prefetch([[maybe_unused]] const void* address) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace hashnms
