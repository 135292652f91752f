// A named NVTX range that lasts as long as the object: what profilers show as a bar.

#ifndef EXAMPLES_GPT_TRAINER_NVTX_RANGE_H_
#define EXAMPLES_GPT_TRAINER_NVTX_RANGE_H_

#include <nvtx3/nvToolsExt.h>

namespace gpt {

class NvtxRange {
 public:
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_NVTX_RANGE_H_
