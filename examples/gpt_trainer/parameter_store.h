// A rank's parameters (bf16) and gradients (fp32): two flat arrays with one layout.

#ifndef EXAMPLES_GPT_TRAINER_PARAMETER_STORE_H_
#define EXAMPLES_GPT_TRAINER_PARAMETER_STORE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "examples/gpt_trainer/caching_allocator.h"
#include "examples/gpt_trainer/kernels.h"
#include "examples/gpt_trainer/parameter_layout.h"

namespace gpt {

class ParameterStore {
 public:
  // Allocates, and initialises the parameters on `stream`.
  ParameterStore(ParameterLayout layout, CachingAllocator& allocator, uint64_t seed,
                 cudaStream_t stream);

  const ParameterLayout& layout() const { return layout_; }

  // By index into layout().parameters.
  const bf16* value(int parameter) const {
    return values_.data() + layout_.parameters[parameter].offset;
  }
  float* gradient(int parameter) const {
    return gradients_.data() + layout_.parameters[parameter].offset;
  }

  // The whole arrays, layout().elements long.
  bf16* values() const { return values_.data(); }
  float* gradients() const { return gradients_.data(); }

 private:
  ParameterLayout layout_;
  DeviceArray<bf16> values_;
  DeviceArray<float> gradients_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PARAMETER_STORE_H_
