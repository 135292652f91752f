// A rank's parameters (bf16) and gradients (fp32): two flat arrays with one layout.

#ifndef EXAMPLES_GPT_TRAINER_PARAMETER_STORE_H_
#define EXAMPLES_GPT_TRAINER_PARAMETER_STORE_H_

#include <cstdint>
#include <utility>

#include "examples/gpt_trainer/caching_allocator.h"
#include "examples/gpt_trainer/kernels/kernels.h"
#include "examples/gpt_trainer/parameter_layout.h"

namespace gpt {

class ParameterStore {
 public:
  // Allocates, and initialises the parameters on `stream`.
  ParameterStore(ParameterLayout layout, CachingAllocator& allocator, uint64_t seed,
                 StreamHandle stream);

  const ParameterLayout& layout() const { return layout_; }

  // By index into layout().parameters.
  const Element* value(int parameter) const {
    return values_.data() + layout_.parameters[parameter].offset;
  }
  float* gradient(int parameter) const {
    return gradients_.data() + layout_.parameters[parameter].offset;
  }

  // The whole arrays, layout().elements long.
  Element* values() const { return values_.data(); }
  float* gradients() const { return gradients_.data(); }

 private:
  ParameterLayout layout_;
  DeviceArray<Element> values_;
  DeviceArray<float> gradients_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PARAMETER_STORE_H_
