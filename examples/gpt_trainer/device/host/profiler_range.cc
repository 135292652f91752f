// No profiler looks at the host backend.

#include "examples/gpt_trainer/device/profiler_range.h"

namespace gpt {

ProfilerRange::ProfilerRange(const char* /*name*/) {}
ProfilerRange::~ProfilerRange() = default;

}  // namespace gpt
