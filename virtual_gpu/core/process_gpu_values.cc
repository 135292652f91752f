// Values of small kernels (element_kernel.h, concat_kernel.h, list_copy_kernel.h,
// reduce_kernel.h, loss_scale.h).

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "virtual_gpu/core/loss_scale.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {
namespace {

// Elements that are computed: what programs decide by is small (counts, the labels of
// a micro-batch), and the rest of a job is not to be carried out here.
constexpr uint64_t kMostElements = 16'384;

uint64_t PointerAt(const unsigned char* operands, uint32_t index) {
  uint64_t address;
  std::memcpy(&address, operands + index * sizeof address, sizeof address);
  return address;
}

// All parameters of a launch that has as many; nullopt where some are not there.
template <size_t kCount>
std::optional<std::array<const unsigned char*, kCount>> ArgumentsOf(
    const KernelLaunch& launch) {
  const KernelSignature& signature = launch.kernel->signature;
  if (!signature.complete || signature.count != kCount)
    return std::nullopt;
  std::array<const unsigned char*, kCount> at;
  for (uint32_t i = 0; i < kCount; ++i)
    at[i] = ArgumentAt(launch, i);
  return std::find(at.begin(), at.end(), nullptr) == at.end() ? std::optional(at)
                                                              : std::nullopt;
}

}  // namespace

bool ProcessGpu::MarkElements(const KernelLaunch& launch) {
  const KernelCode& code = *launch.kernel;
  const KernelSignature& signature = code.signature;
  if (code.elements.shape != ElementKernel::Shape::kElementwise || !signature.complete)
    return false;
  // Elements, functor, operands; what comes after them holds no pointer.
  constexpr uint32_t kElements = 0, kFunctor = 1, kOperands = 2;
  const unsigned char* count = ArgumentAt(launch, kElements);
  const unsigned char* functor = ArgumentAt(launch, kFunctor);
  const unsigned char* operands = ArgumentAt(launch, kOperands);
  if (signature.count <= kOperands || count == nullptr || functor == nullptr ||
      operands == nullptr || signature.parameters[kOperands].size < sizeof(uint64_t))
    return false;
  const char* writer = code.name.c_str();
  // The functor may hold pointers, too.
  for (uint32_t word = 0;
       word + sizeof(uint64_t) <= signature.parameters[kFunctor].size;
       word += sizeof(uint64_t))
    contents_.WriteInReach(PointerAt(functor + word, 0), writer);
  int32_t elements;
  std::memcpy(&elements, count, sizeof elements);
  if (elements <= 0)
    return true;
  const uint64_t out = PointerAt(operands, 0);
  const Allocation* allocation = contents_.Find(out);
  if (allocation == nullptr)
    return true;
  const Origin origin = ElementsOf(launch, operands, static_cast<uint64_t>(elements));
  if (origin.kind == Origin::Kind::kBytes)
    return true;
  const bool known = code.elements.function != ElementKernel::Function::kUnknown;
  uint64_t each = known ? BytesOf(code.elements.result) : code.elements.result_bytes;
  if (!known && code.elements.converts && signature.count > kStoreParameter &&
      signature.parameters[kStoreParameter].size == kCasterBytes)
    if (const unsigned char* store = ArgumentAt(launch, kStoreParameter))
      each = StoredBytes(store);
  contents_.Write(out,
                  std::min(each * static_cast<uint64_t>(elements),
                           allocation->bytes - (out - allocation->base)),
                  origin);
  return true;
}

bool ProcessGpu::MarkConcat(const KernelLaunch& launch) {
  const KernelSignature& signature = launch.kernel->signature;
  if (launch.kernel->concat.element_bytes == 0)
    return false;
  // Output, inputs, shape of the output, dimension, the output's stride there.
  const auto arguments = ArgumentsOf<5>(launch);
  if (!arguments)
    return false;
  const auto& at = *arguments;
  ConcatLaunch concat{.output = PointerAt(at[0], 0),
                      .inputs = at[1],
                      .inputs_bytes = signature.parameters[1].size,
                      .shape = at[2],
                      .shape_bytes = signature.parameters[2].size,
                      .input_count = launch.grid[1]};
  std::memcpy(&concat.dimension, at[3], sizeof concat.dimension);
  if (signature.parameters[4].size > sizeof concat.stride)
    return false;
  std::memcpy(&concat.stride, at[4], signature.parameters[4].size);
  const ConcatKernel& kernel = launch.kernel->concat;
  if (!IsConcat(kernel, concat))
    return false;
  const uint64_t extent = ConcatExtent(kernel, concat);
  if (extent != 0 && contents_.IsValid(concat.output, extent))
    contents_.Write(concat.output, extent,
                    Origin::Computed(launch.kernel->name.c_str()));
  for (const CopyPart& part :
       ConcatParts(kernel, concat).value_or(std::vector<CopyPart>()))
    CopyOnDevice(part);
  return true;
}

void ProcessGpu::CopyOnDevice(const CopyPart& part) {
  if (part.bytes != 0 && contents_.IsValid(part.to, part.bytes) &&
      contents_.IsValid(part.from, part.bytes))
    contents_.CopyWithin(part.to, part.from, part.bytes);
}

bool ProcessGpu::MarkListCopy(const KernelLaunch& launch) {
  const KernelSignature& signature = launch.kernel->signature;
  // The lists, a functor, the operation: both without members.
  const auto arguments =
      launch.kernel->list_copy_bytes != 0 ? ArgumentsOf<3>(launch) : std::nullopt;
  if (!arguments)
    return false;
  const auto parts = ListCopyParts(launch.kernel->list_copy_bytes, (*arguments)[0],
                                   signature.parameters[0].size, launch.grid[0]);
  if (!parts)
    return false;
  for (const CopyPart& part : *parts)
    CopyOnDevice(part);
  return true;
}

bool ProcessGpu::MarkReduction(const KernelLaunch& launch) {
  const KernelCode& code = *launch.kernel;
  const KernelSignature& signature = code.signature;
  if (code.reduction.function == ReduceKernel::Function::kNone || !signature.complete ||
      signature.count != 1)
    return false;
  const unsigned char* structure = ArgumentAt(launch, 0);
  if (structure == nullptr)
    return false;
  const std::optional<ReduceLaunch> reduction =
      ReadReduction(structure, signature.parameters[0].size, launch.grid, launch.block);
  if (!reduction)
    return false;
  const char* writer = code.name.c_str();
  const auto mark = [&](uint64_t address, uint64_t bytes) {
    const Allocation* allocation = contents_.Find(address);
    if (allocation != nullptr && bytes != 0)
      contents_.Write(address,
                      std::min(bytes, allocation->bytes - (address - allocation->base)),
                      Origin::Computed(writer));
  };
  mark(reduction->scratch[0], reduction->partial_result_bytes);
  mark(reduction->scratch[1], reduction->semaphore_bytes);
  const uint64_t value_bytes = code.reduction.value_bytes;
  if (IsComputable(code.reduction, *reduction) &&
      reduction->outputs * reduction->inputs_each <= kMostElements &&
      reduction->InputSpan() <= kMostElements * kMaxElementBytes) {
    const KernelInput input{reduction->from, reduction->InputSpan() + value_bytes};
    const uint64_t out_bytes = reduction->outputs * value_bytes;
    const Origin origin = ValueOf(
        {&input, 1}, reduction->to[0], out_bytes,
        [kernel = code.reduction, reduction = *reduction](
            const PendingValue::Inputs& inputs, unsigned char* out) {
          ComputeReduction(kernel, reduction, inputs[0].data(), out);
          return true;
        },
        writer);
    if (origin.kind == Origin::Kind::kPending)
      contents_.Write(reduction->to[0], out_bytes, origin);
    if (origin.kind != Origin::Kind::kComputed)
      return true;
  }
  unsigned char seen[sizeof(uint64_t)], shown[sizeof(uint64_t)];
  if (IsComputable(code.reduction, *reduction) &&
      contents_.ReadsOneElement(reduction->from, reduction->InputSpan() + value_bytes,
                                static_cast<uint32_t>(value_bytes), seen) &&
      contents_.IsValid(reduction->to[0], reduction->outputs * value_bytes)) {
    ReduceEqual(code.reduction, reduction->inputs_each, seen, shown);
    contents_.Write(
        reduction->to[0], reduction->outputs * value_bytes,
        Origin::Computed(writer, shown, static_cast<uint32_t>(value_bytes)));
    return true;
  }
  // Two results may be of different sizes, which scales the strides of the second.
  const uint64_t each = value_bytes != 0 ? value_bytes : kMaxElementBytes;
  mark(reduction->to[0], reduction->OutputSpan() + each);
  if (reduction->outputs_each > 1)
    mark(reduction->to[1], (reduction->OutputSpan() + 1) * kMaxElementBytes);
  return true;
}

// Whether a gradient is infinite is computed, so the host reads that none is. What
// follows for the scale counts as computed as well. Nothing else writes scale and
// tracker but fills and copies, though other kernels get pointers to what lies before
// them.
bool ProcessGpu::MarkLossScale(const KernelLaunch& launch) {
  if (!launch.kernel->updates_loss_scale)
    return false;
  const auto arguments = ArgumentsOf<6>(launch);
  if (!arguments)
    return false;
  const auto& at = *arguments;
  const uint64_t scale = PointerAt(at[0], 0), tracker = PointerAt(at[1], 0),
                 found = PointerAt(at[2], 0);
  LossScale before;
  LossScaleRule rule;
  float found_inf = 0;
  bool scale_known = false, tracker_known = false;
  const auto bytes_of = [](auto* number) {
    return reinterpret_cast<unsigned char*>(number);
  };
  if (!contents_.ReadLatest(scale, sizeof before.scale, bytes_of(&before.scale),
                            &scale_known) ||
      !contents_.IsValid(tracker, sizeof before.growth_tracker))
    return false;
  // Lost where a kernel may have written so far, it counts anew.
  contents_.ReadLatest(tracker, sizeof before.growth_tracker,
                       bytes_of(&before.growth_tracker), &tracker_known);
  // Where it waits for other ranks, these would have computed theirs, too.
  std::vector<Landing> landings;
  const bool found_known = contents_.IsKnown(found, sizeof found_inf);
  if (found_known)
    contents_.Deliver(found, sizeof found_inf, bytes_of(&found_inf), &landings);
  else
    contents_.ReadsOneElement(found, sizeof found_inf, sizeof found_inf,
                              bytes_of(&found_inf));
  std::memcpy(&rule.growth_factor, at[3], sizeof rule.growth_factor);
  std::memcpy(&rule.backoff_factor, at[4], sizeof rule.backoff_factor);
  std::memcpy(&rule.growth_interval, at[5], sizeof rule.growth_interval);
  LossScale after = UpdateLossScale(before, found_inf, rule);
  const bool known = scale_known && tracker_known && found_known && landings.empty();
  const auto write = [&](uint64_t address, auto* number) {
    const unsigned char* const bytes = bytes_of(number);
    const bool stored = known && contents_.StoreBytes(address, bytes, sizeof *number);
    Origin origin =
        stored ? Origin::Bytes()
               : Origin::Computed(launch.kernel->name.c_str(), bytes, sizeof *number);
    origin.own = true;
    contents_.Write(address, sizeof *number, origin);
  };
  write(scale, &after.scale);
  write(tracker, &after.growth_tracker);
  return true;
}

Origin ProcessGpu::ValueOf(std::span<const KernelInput> inputs, uint64_t out,
                           uint64_t out_bytes, PendingValue::Compute compute,
                           const char* writer) {
  const Origin computed = Origin::Computed(writer);
  if (!contents_.IsValid(out, out_bytes))
    return computed;
  for (const KernelInput& input : inputs)
    if (!contents_.IsKnown(input.address, input.bytes))
      return computed;
  auto value = std::make_shared<PendingValue>();
  value->compute = std::move(compute);
  value->result_bytes = out_bytes;
  value->inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    value->inputs[i].resize(inputs[i].bytes);
    contents_.Deliver(inputs[i].address, inputs[i].bytes, value->inputs[i].data(),
                      &value->landings);
  }
  if (!value->landings.empty())
    return Origin::Pending(std::move(value), 0);
  std::vector<unsigned char> result(out_bytes);
  const bool done = value->compute(value->inputs, result.data()) &&
                    contents_.StoreBytes(out, result.data(), out_bytes);
  return done ? Origin::Bytes() : computed;
}

Origin ProcessGpu::ElementsOf(const KernelLaunch& launch, const unsigned char* operands,
                              uint64_t elements) {
  const KernelCode& code = *launch.kernel;
  const KernelSignature& signature = code.signature;
  ElementKernel kernel = code.elements;
  const char* writer = code.name.c_str();
  const uint32_t inputs = InputsOf(kernel);
  std::array<unsigned char, kMaxFunctorBytes> functor = {};
  if (kernel.function == ElementKernel::Function::kUnknown ||
      signature.parameters[1].size < FunctorBytesOf(kernel) ||
      signature.parameters[2].size < (inputs + 1) * sizeof(uint64_t))
    return Origin::Computed(writer);
  if (kernel.function == ElementKernel::Function::kCast) {
    if (signature.count <= kStoreParameter ||
        signature.parameters[kLoadParameter].size != kCasterBytes ||
        signature.parameters[kStoreParameter].size != kCasterBytes)
      return Origin::Computed(writer);
    const unsigned char* load = ArgumentAt(launch, kLoadParameter);
    const unsigned char* store = ArgumentAt(launch, kStoreParameter);
    if (load == nullptr || store == nullptr || !ReadCast(load, store, &kernel))
      return Origin::Computed(writer);
  }
  const uint64_t bytes = elements * BytesOf(kernel.type);
  std::memcpy(functor.data(), ArgumentAt(launch, 1), FunctorBytesOf(kernel));
  std::vector<KernelInput> read;
  for (uint32_t i = 1; i <= inputs; ++i)
    read.push_back({PointerAt(operands, i), bytes});
  // What nobody knows is one and the same number everywhere, and so is what follows.
  // Numbers that follow from zeros are mostly zeros again: looked at where they are
  // few.
  if (elements > kMostElements && kernel.result != 'b' &&
      kernel.function != ElementKernel::Function::kCast)
    return Origin::Computed(writer);
  unsigned char seen[2][sizeof(uint64_t)] = {}, shown[sizeof(uint64_t)] = {};
  bool unknown = inputs != 0;
  for (uint32_t i = 0; i < inputs && unknown; ++i)
    unknown = contents_.ReadsOneElement(read[i].address, bytes, BytesOf(kernel.type),
                                        seen[i]);
  if (unknown && ComputeElements(kernel, functor.data(), seen[0], seen[1], 1, shown))
    return Origin::Computed(writer, shown, BytesOf(kernel.result));
  if (elements > kMostElements)
    return Origin::Computed(writer);
  return ValueOf(
      read, PointerAt(operands, 0), elements * BytesOf(kernel.result),
      [kernel, functor, elements](const PendingValue::Inputs& in, unsigned char* out) {
        const auto input = [&](size_t i) {
          return i < in.size() ? in[i].data() : nullptr;
        };
        return ComputeElements(kernel, functor.data(), input(0), input(1), elements,
                               out);
      },
      writer);
}

}  // namespace vrank::gpu
