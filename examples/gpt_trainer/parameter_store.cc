// Padding is set to zero once and stays so: its gradients are always zero.

#include "examples/gpt_trainer/parameter_store.h"

#include "examples/gpt_trainer/checks.h"

namespace gpt {

ParameterStore::ParameterStore(ParameterLayout layout, CachingAllocator& allocator,
                               uint64_t seed, cudaStream_t stream)
    : layout_(std::move(layout)),
      values_(allocator, layout_.elements),
      gradients_(allocator, layout_.elements) {
  GPT_CHECK_CUDA(
      cudaMemsetAsync(values_.data(), 0, layout_.elements * sizeof(bf16), stream));
  for (const Parameter& parameter : layout_.parameters) {
    bf16* data = values_.data() + parameter.offset;
    if (parameter.initial.deviation > 0.0f) {
      InitializeNormal(data,
                       {parameter.rows, parameter.columns, parameter.first_row,
                        parameter.first_column, parameter.full_columns},
                       seed, parameter.tensor, parameter.initial.deviation, stream);
    } else {
      Fill(data, parameter.elements(), parameter.initial.constant, stream);
    }
  }
}

}  // namespace gpt
