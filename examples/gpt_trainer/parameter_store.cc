// Padding is set to zero once and stays so: its gradients are always zero.

#include "examples/gpt_trainer/parameter_store.h"

#include "examples/gpt_trainer/device/device.h"

namespace gpt {

ParameterStore::ParameterStore(ParameterLayout layout, CachingAllocator& allocator,
                               uint64_t seed, StreamHandle stream)
    : layout_(std::move(layout)),
      values_(allocator, layout_.elements),
      gradients_(allocator, layout_.elements) {
  SetToZero(values_.data(), layout_.elements * sizeof(Element), stream);
  for (const Parameter& parameter : layout_.parameters) {
    Element* data = values_.data() + parameter.offset;
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
