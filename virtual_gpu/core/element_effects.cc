// Element-wise kernels (element_kernel.h).

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "virtual_gpu/core/element_kernel.h"
#include "virtual_gpu/core/kernel_values.h"
#include "virtual_gpu/core/named_effect.h"

namespace vrank::gpu {
namespace {

Origin ElementsOf(ElementKernel kernel, const KernelLaunch& launch,
                  const unsigned char* operands, uint64_t elements,
                  Contents& contents) {
  const KernelCode& code = *launch.kernel;
  const KernelSignature& signature = code.signature;
  const char* writer = code.writer();
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
  // Unknown elements read as one and the same number, and so do results of them.
  // Numbers that follow from zeros are mostly zeros again: looked at where they are
  // few.
  if (elements > kMostElements && kernel.result != 'b' &&
      kernel.function != ElementKernel::Function::kCast)
    return Origin::Computed(writer);
  unsigned char seen[2][sizeof(uint64_t)] = {}, shown[sizeof(uint64_t)] = {};
  bool unknown = inputs != 0;
  for (uint32_t i = 0; i < inputs && unknown; ++i)
    unknown =
        contents.ReadsOneElement(read[i].address, bytes, BytesOf(kernel.type), seen[i]);
  if (unknown && ComputeElements(kernel, functor.data(), seen[0], seen[1], 1, shown)) {
    const Origin computed = Origin::Computed(writer, shown, BytesOf(kernel.result));
    return kernel.result == 'b' && elements <= kMostElements
               ? contents.AssumeCondition(computed)
               : computed;
  }
  if (elements > kMostElements)
    return Origin::Computed(writer);
  return ValueOf(
      contents, read, PointerAt(operands, 0), elements * BytesOf(kernel.result),
      [kernel, functor, elements](const PendingValue::Inputs& in, unsigned char* out) {
        const auto input = [&](size_t i) {
          return i < in.size() ? in[i].data() : nullptr;
        };
        return ComputeElements(kernel, functor.data(), input(0), input(1), elements,
                               out);
      },
      writer);
}

// Elements, functor, operands; what comes after them holds no pointer.
constexpr uint32_t kElements = 0, kFunctor = 1, kOperands = 2;

struct ElementArguments {
  int32_t elements = 0;
  const unsigned char* functor = nullptr;
  const unsigned char* operands = nullptr;  // at least the output's address
};

// Nothing where the parameters are not those of an element-wise kernel.
std::optional<ElementArguments> ReadArguments(const KernelLaunch& launch) {
  const KernelSignature& signature = launch.kernel->signature;
  if (!signature.complete || signature.count <= kOperands)
    return std::nullopt;
  const unsigned char* const count = ArgumentAt(launch, kElements);
  ElementArguments read{.functor = ArgumentAt(launch, kFunctor),
                        .operands = ArgumentAt(launch, kOperands)};
  if (count == nullptr || read.functor == nullptr || read.operands == nullptr ||
      signature.parameters[kOperands].size < sizeof(uint64_t))
    return std::nullopt;
  std::memcpy(&read.elements, count, sizeof read.elements);
  return read;
}

// The output alone is written, and computed if the inputs are known.
class ElementEffect final : public NamedEffect {
 public:
  explicit ElementEffect(const ElementKernel& kernel) : kernel_(kernel) {}

  // Fills with one number, exactly, at no memory.
  bool Compute(const KernelLaunch& launch, Contents& contents) const override;
  bool Write(const KernelLaunch& launch, Contents& contents) const override;

 private:
  const ElementKernel kernel_;
};

bool ElementEffect::Compute(const KernelLaunch& launch, Contents& contents) const {
  const ElementKernel& kernel = kernel_;
  if (kernel.function != ElementKernel::Function::kFill)
    return false;
  const auto arguments = ReadArguments(launch);
  if (!arguments ||
      launch.kernel->signature.parameters[kFunctor].size < FunctorBytesOf(kernel))
    return false;
  const uint64_t each = BytesOf(kernel.result), out = PointerAt(arguments->operands, 0);
  const uint64_t bytes = each * static_cast<uint64_t>(std::max(arguments->elements, 0));
  unsigned char one[sizeof(uint64_t)] = {};
  if (bytes == 0 || each > sizeof one || out % each != 0 ||
      !ComputeElements(kernel, arguments->functor, nullptr, nullptr, 1, one) ||
      !contents.IsValid(out, bytes))
    return false;
  for (uint64_t i = each; i < sizeof one; ++i)
    one[i] = one[i - each];
  uint32_t pattern, other;
  std::memcpy(&pattern, one, sizeof pattern);
  std::memcpy(&other, one + sizeof pattern, sizeof other);
  if (pattern != other)
    return false;
  contents.Write(out, bytes, Origin::Fill(pattern));
  return true;
}

bool ElementEffect::Write(const KernelLaunch& launch, Contents& contents) const {
  const KernelCode& code = *launch.kernel;
  const KernelSignature& signature = code.signature;
  const auto arguments = ReadArguments(launch);
  if (!arguments)
    return false;
  const auto& [elements, functor, operands] = *arguments;
  const char* writer = code.writer();
  // The functor may hold pointers, too.
  for (uint32_t word = 0;
       word + sizeof(uint64_t) <= signature.parameters[kFunctor].size;
       word += sizeof(uint64_t))
    contents.WriteInReach(PointerAt(functor + word, 0), writer);
  if (elements <= 0)
    return true;
  const uint64_t out = PointerAt(operands, 0);
  const Allocation* allocation = contents.Find(out);
  if (allocation == nullptr)
    return true;
  const Origin origin =
      ElementsOf(kernel_, launch, operands, static_cast<uint64_t>(elements), contents);
  if (origin.kind == Origin::Kind::kBytes)
    return true;
  const bool known = kernel_.function != ElementKernel::Function::kUnknown;
  uint64_t each = known ? BytesOf(kernel_.result) : kernel_.result_bytes;
  if (!known && kernel_.converts && signature.count > kStoreParameter &&
      signature.parameters[kStoreParameter].size == kCasterBytes)
    if (const unsigned char* store = ArgumentAt(launch, kStoreParameter))
      each = StoredBytes(store);
  // `each` may be a bound: no more than the block that it got.
  const uint64_t block = contents.ReachEnd(out);
  const uint64_t end = block != 0 ? block : allocation->base + allocation->bytes;
  contents.Write(out, std::min(each * static_cast<uint64_t>(elements), end - out),
                 origin);
  return true;
}

}  // namespace

std::unique_ptr<const NamedEffect> NewElementEffect(std::string_view mangled) {
  const ElementKernel kernel = ParseElementKernel(mangled);
  if (kernel.shape != ElementKernel::Shape::kElementwise)
    return nullptr;
  return std::make_unique<ElementEffect>(kernel);
}

}  // namespace vrank::gpu
