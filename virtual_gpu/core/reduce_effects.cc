// Reductions (reduce_kernel.h).

#include <algorithm>
#include <memory>
#include <optional>

#include "virtual_gpu/core/element_kernel.h"
#include "virtual_gpu/core/kernel_values.h"
#include "virtual_gpu/core/made_up_choices.h"
#include "virtual_gpu/core/named_effect.h"
#include "virtual_gpu/core/reduce_kernel.h"

namespace vrank::gpu {
namespace {

// Output and scratch are written, computed if the inputs are known.
class ReduceEffect final : public NamedEffect {
 public:
  explicit ReduceEffect(const ReduceKernel& kernel) : kernel_(kernel) {}

  bool Write(const KernelLaunch& launch, Contents& contents) const override;

 private:
  bool MakeUpChoice(const KernelLaunch& launch, const ReduceLaunch& reduction,
                    Contents& contents) const;

  const ReduceKernel kernel_;
};

bool ReduceEffect::Write(const KernelLaunch& launch, Contents& contents) const {
  const KernelCode& code = *launch.kernel;
  const KernelSignature& signature = code.signature;
  if (!signature.complete || signature.count != 1)
    return false;
  const unsigned char* structure = ArgumentAt(launch, 0);
  if (structure == nullptr)
    return false;
  const std::optional<ReduceLaunch> reduction =
      ReadReduction(structure, signature.parameters[0].size, launch.grid, launch.block);
  if (!reduction)
    return false;
  const char* writer = code.writer();
  const auto mark = [&](uint64_t address, uint64_t bytes) {
    const Allocation* allocation = contents.Find(address);
    if (allocation != nullptr && bytes != 0)
      contents.Write(address,
                     std::min(bytes, allocation->bytes - (address - allocation->base)),
                     Origin::Computed(writer));
  };
  mark(reduction->scratch[0], reduction->partial_result_bytes);
  mark(reduction->scratch[1], reduction->semaphore_bytes);
  const uint64_t value_bytes = kernel_.value_bytes;
  if (IsComputable(kernel_, *reduction) &&
      reduction->outputs * reduction->inputs_each <= kMostElements &&
      reduction->InputSpan() <= kMostElements * kMaxElementBytes) {
    const KernelInput input{reduction->from, reduction->InputSpan() + value_bytes};
    const uint64_t out_bytes = reduction->outputs * value_bytes;
    const Origin origin = ValueOf(
        contents, {&input, 1}, reduction->to[0], out_bytes,
        [kernel = kernel_, reduction = *reduction](const PendingValue::Inputs& inputs,
                                                   unsigned char* out) {
          ComputeReduction(kernel, reduction, inputs[0].data(), out);
          return true;
        },
        writer);
    if (origin.kind == Origin::Kind::kPending)
      contents.Write(reduction->to[0], out_bytes, origin);
    if (origin.kind != Origin::Kind::kComputed)
      return true;
  }
  unsigned char seen[sizeof(uint64_t)], shown[sizeof(uint64_t)];
  if (IsComputable(kernel_, *reduction) &&
      contents.ReadsOneElement(reduction->from, reduction->InputSpan() + value_bytes,
                               static_cast<uint32_t>(value_bytes), seen) &&
      contents.IsValid(reduction->to[0], reduction->outputs * value_bytes)) {
    ReduceEqual(kernel_, reduction->inputs_each, seen, shown);
    const Origin computed =
        Origin::Computed(writer, shown, static_cast<uint32_t>(value_bytes));
    const bool is_condition =
        kernel_.type == 'b' && reduction->outputs <= kMostElements;
    contents.Write(reduction->to[0], reduction->outputs * value_bytes,
                   is_condition ? contents.AssumeCondition(computed) : computed);
    return true;
  }
  if (kernel_.choice != ReduceKernel::Choice::kNone &&
      MakeUpChoice(launch, *reduction, contents))
    return true;
  const uint64_t each = value_bytes != 0 ? value_bytes : reduction->MostResultBytes();
  mark(reduction->to[0], reduction->OutputSpan() + each);
  // A second result is as large as the first or a place (8 bytes), which scales its
  // strides.
  if (reduction->outputs_each > 1)
    mark(reduction->to[1], (reduction->OutputSpan() / each + 1) *
                               std::max<uint64_t>(each, sizeof(int64_t)));
  return true;
}

// Of a few candidates: routers have hundreds of experts at most, while the places of
// tokens in a vocabulary decide no size.
bool ReduceEffect::MakeUpChoice(const KernelLaunch& launch,
                                const ReduceLaunch& reduction,
                                Contents& contents) const {
  constexpr uint64_t kMostCandidates = 512;
  const bool has_value = kernel_.choice == ReduceKernel::Choice::kValueAndPlace;
  const uint64_t first_bytes = has_value ? kernel_.value_bytes : sizeof(int64_t);
  if (!reduction.whole || reduction.outputs_each != (has_value ? 2 : 1) ||
      reduction.inputs_each < 2 || reduction.inputs_each > kMostCandidates ||
      reduction.OutputSpan() != (reduction.outputs - 1) * first_bytes)
    return false;
  return MakeUpChoices({.slices = reduction.outputs,
                        .length = reduction.inputs_each,
                        .places = reduction.to[has_value ? 1 : 0],
                        .values = has_value ? reduction.to[0] : 0,
                        .type = has_value ? kernel_.type : '\0'},
                       launch, contents) != 0;
}

}  // namespace

std::unique_ptr<const NamedEffect> NewReduceEffect(std::string_view mangled) {
  const ReduceKernel kernel = ParseReduceKernel(mangled);
  if (kernel.function == ReduceKernel::Function::kNone)
    return nullptr;
  return std::make_unique<ReduceEffect>(kernel);
}

}  // namespace vrank::gpu
