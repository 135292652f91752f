// NVTX.

#include "examples/gpt_trainer/device/profiler_range.h"

#include <nvtx3/nvToolsExt.h>

namespace gpt {

ProfilerRange::ProfilerRange(const char* name) {
  nvtxRangePushA(name);
}

ProfilerRange::~ProfilerRange() {
  nvtxRangePop();
}

}  // namespace gpt
