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
#include "virtual_gpu/core/stored_addresses.h"

namespace vrank::gpu {
namespace {

// An unknown number is compared with zero as a positive one: programs ask whether
// scales, variances and probabilities are valid.
void TakeForPositive(const ElementKernel& kernel, const unsigned char* functor,
                     unsigned char* seen) {
  constexpr unsigned char kZero[sizeof(uint64_t)] = {};
  const uint32_t bytes = BytesOf(kernel.type);
  const bool is_real =
      kernel.type == 'f' || kernel.type == 'd' || IsHalfPrecision(kernel.type);
  if (kernel.function == ElementKernel::Function::kCompareScalar && is_real &&
      std::memcmp(functor + FunctorBytesOf(kernel) - bytes, kZero, bytes) == 0 &&
      std::memcmp(seen, kZero, bytes) == 0)
    seen[0] = 1;  // the least positive number
}

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
  if (unknown)
    TakeForPositive(kernel, functor.data(), seen[0]);
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

// A comparison of unknown strided operands, whose result is a tensor of its own.
class StridedEffect final : public NamedEffect {
 public:
  explicit StridedEffect(const ElementKernel& kernel) : kernel_(kernel) {}

  bool Write(const KernelLaunch& launch, Contents& contents) const override;

 private:
  const ElementKernel kernel_;
};

bool StridedEffect::Write(const KernelLaunch& launch, Contents& contents) const {
  const KernelSignature& signature = launch.kernel->signature;
  const auto stored = FindStoredAddresses(launch, contents);
  if (!signature.complete || signature.count != 2 || !stored || stored->size() != 1)
    return false;
  const unsigned char* const count = ArgumentAt(launch, 0);
  const unsigned char* const structure = ArgumentAt(launch, 1);
  if (count == nullptr || structure == nullptr)
    return false;
  int32_t elements;
  std::memcpy(&elements, count, sizeof elements);
  const uint64_t out = stored->front();
  // The allocator's blocks are multiples of 512 bytes (CUDACachingAllocator.cpp:
  // kMinBlockSize).
  constexpr uint64_t kBlock = 512;
  const auto bytes = static_cast<uint64_t>(std::max(elements, 0));
  if (bytes == 0 || contents.ReachBegin(out) != out ||
      contents.ReachEnd(out) >= out + bytes + kBlock || !contents.IsValid(out, bytes))
    return false;
  // At the end: operands, the output first, then the functor. Unused parts of what
  // comes before may hold the same address.
  const uint32_t inputs = InputsOf(kernel_);
  const uint64_t size = signature.parameters[1].size;
  uint64_t at = (inputs + 1) * sizeof(uint64_t) + FunctorBytesOf(kernel_);
  if (size < at)
    return false;
  at = (size - at) / sizeof(uint64_t) * sizeof(uint64_t);
  while (at > 0 && PointerAt(structure + at, 0) != out)
    at -= sizeof(uint64_t);
  const unsigned char* const operands = structure + at;
  const unsigned char* const functor = operands + (inputs + 1) * sizeof(uint64_t);
  unsigned char seen[2][sizeof(uint64_t)] = {}, shown[sizeof(uint64_t)] = {};
  const uint32_t each = BytesOf(kernel_.type);
  for (uint32_t i = 0; i < inputs; ++i)
    if (!contents.ReadsOneElement(PointerAt(operands, i + 1), each, each, seen[i]))
      return false;
  TakeForPositive(kernel_, functor, seen[0]);
  if (PointerAt(operands, 0) != out ||
      !ComputeElements(kernel_, functor, seen[0], seen[1], 1, shown))
    return false;
  const Origin computed = Origin::Computed(launch.kernel->writer(), shown, 1);
  contents.Write(
      out, bytes,
      bytes <= kMostElements ? contents.AssumeCondition(computed) : computed);
  return true;
}

}  // namespace

std::unique_ptr<const NamedEffect> NewElementEffect(std::string_view mangled) {
  const ElementKernel kernel = ParseElementKernel(mangled);
  if (kernel.shape == ElementKernel::Shape::kStrided)
    return std::make_unique<StridedEffect>(kernel);
  if (kernel.shape != ElementKernel::Shape::kElementwise)
    return nullptr;
  return std::make_unique<ElementEffect>(kernel);
}

}  // namespace vrank::gpu
