// Values of small element-wise kernels (element_kernel.h).

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "virtual_gpu/core/pending_value.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {
namespace {

// Elements that are computed: what programs decide by is small, and the rest of a job
// is not to be carried out here.
constexpr uint64_t kMostElements = 1024;

uint64_t PointerAt(const unsigned char* operands, uint32_t index) {
  uint64_t address;
  std::memcpy(&address, operands + index * sizeof address, sizeof address);
  return address;
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
    contents_.WriteFrom(PointerAt(functor + word, 0), writer);
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
  const uint64_t each = known ? OutputBytesOf(code.elements) : kMaxElementBytes;
  contents_.Write(out,
                  std::min(each * static_cast<uint64_t>(elements),
                           allocation->bytes - (out - allocation->base)),
                  origin);
  return true;
}

bool ProcessGpu::MarkConcat(const KernelLaunch& launch) {
  const KernelSignature& signature = launch.kernel->signature;
  // Output, inputs, shape of the output, dimension, the output's stride there.
  constexpr uint32_t kParameters = 5;
  if (launch.kernel->concat.element_bytes == 0 || !signature.complete ||
      signature.count != kParameters)
    return false;
  const unsigned char* at[kParameters];
  for (uint32_t i = 0; i < kParameters; ++i) {
    at[i] = ArgumentAt(launch, i);
    if (at[i] == nullptr)
      return false;
  }
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
  for (const ConcatPart& part :
       ConcatParts(kernel, concat).value_or(std::vector<ConcatPart>())) {
    if (part.bytes != 0 && contents_.IsValid(part.to, part.bytes) &&
        contents_.IsValid(part.from, part.bytes))
      contents_.CopyWithin(part.to, part.from, part.bytes);
  }
  return true;
}

Origin ProcessGpu::ElementsOf(const KernelLaunch& launch, const unsigned char* operands,
                              uint64_t elements) {
  const KernelCode& code = *launch.kernel;
  const ElementKernel& kernel = code.elements;
  const Origin computed = Origin::Computed(code.name.c_str());
  const uint32_t inputs = InputsOf(kernel);
  const KernelParameter* parameters = code.signature.parameters;
  const uint64_t bytes = elements * kernel.value_bytes;
  const uint64_t out_bytes = elements * OutputBytesOf(kernel);
  if (kernel.function == ElementKernel::Function::kUnknown ||
      elements > kMostElements ||
      parameters[1].size < (inputs == 0 ? kernel.value_bytes : sizeof(int32_t)) ||
      parameters[2].size < (inputs + 1) * sizeof(uint64_t) ||
      !contents_.IsValid(PointerAt(operands, 0), out_bytes))
    return computed;
  for (uint32_t i = 1; i <= inputs; ++i)
    if (!contents_.IsKnown(PointerAt(operands, i), bytes))
      return computed;
  auto value = std::make_shared<PendingValue>();
  value->kernel = kernel;
  std::memcpy(value->functor, ArgumentAt(launch, 1),
              std::min<size_t>(parameters[1].size, sizeof value->functor));
  value->elements = elements;
  for (uint32_t i = 0; i < inputs; ++i) {
    value->inputs[i].resize(bytes);
    contents_.Deliver(PointerAt(operands, i + 1), bytes, value->inputs[i].data(),
                      &value->landings);
  }
  if (!value->landings.empty())
    return Origin::Pending(std::move(value), 0);
  value->result.resize(out_bytes);
  const bool done =
      ComputeElements(kernel, value->functor, value->inputs[0].data(),
                      value->inputs[1].data(), elements, value->result.data()) &&
      contents_.StoreBytes(PointerAt(operands, 0), value->result.data(), out_bytes);
  return done ? Origin::Bytes() : computed;
}

}  // namespace vrank::gpu
