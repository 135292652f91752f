// A named range that lasts as long as the object: what profilers show as a bar (NVTX).

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_PROFILER_RANGE_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_PROFILER_RANGE_H_

namespace gpt {

class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_PROFILER_RANGE_H_
