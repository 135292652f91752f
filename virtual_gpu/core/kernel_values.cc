#include "virtual_gpu/core/kernel_values.h"

#include <memory>
#include <utility>

namespace vrank::gpu {

void CopyOnDevice(const CopyPart& part, Contents& contents) {
  if (part.bytes != 0 && contents.IsValid(part.to, part.bytes) &&
      contents.IsValid(part.from, part.bytes))
    contents.CopyWithin(part.to, part.from, part.bytes);
}

Origin ValueOf(Contents& contents, std::span<const KernelInput> inputs, uint64_t out,
               uint64_t out_bytes, PendingValue::Compute compute, const char* writer) {
  const Origin computed = Origin::Computed(writer);
  if (!contents.IsValid(out, out_bytes))
    return computed;
  for (const KernelInput& input : inputs)
    if (!contents.IsKnown(input.address, input.bytes))
      return computed;
  auto value = std::make_shared<PendingValue>();
  value->compute = std::move(compute);
  value->result_bytes = out_bytes;
  value->inputs.resize(inputs.size());
  const char* made_up_by = "";
  for (size_t i = 0; i < inputs.size(); ++i) {
    value->inputs[i].resize(inputs[i].bytes);
    const char* const here = contents.Gather(inputs[i].address, inputs[i].bytes,
                                             value->inputs[i].data(), &value->landings);
    if (*made_up_by == '\0' && *here != '\0')
      made_up_by = contents.NameMadeUp(writer, here);
  }
  if (!value->landings.empty())
    return Origin::Pending(std::move(value), 0, made_up_by);
  std::vector<unsigned char> result(out_bytes);
  const bool done = value->compute(value->inputs, result.data()) &&
                    contents.StoreBytes(out, result.data(), out_bytes, made_up_by);
  return done ? Origin::Bytes(made_up_by) : computed;
}

}  // namespace vrank::gpu
