// Counts the work of a call for tests/core/work.cpp: pairs of boxes tested, cells and nodes searched. Other builds
// count nothing.
#pragma once

#include <cstdint>

#include "support/dispatch.hpp"

namespace hashnms {

#ifdef HASHNMS_COUNT_WORK
struct TooMuchWork {};
inline uint64_t work_done = 0, work_limit = UINT64_MAX;

HASHNMS_INLINE void count_work(uint64_t steps = 1) {
  work_done += steps;
  if (work_done > work_limit) throw TooMuchWork();
}
#else
HASHNMS_INLINE void count_work(uint64_t = 1) {}
#endif

}  // namespace hashnms
