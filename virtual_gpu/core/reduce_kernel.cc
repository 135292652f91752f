// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/reduce_kernel.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "virtual_gpu/core/element_kernel.h"
#include "virtual_gpu/core/element_type.h"

namespace vrank::gpu {
namespace {

// ReduceConfig, as far as it is read: places of its integers.
constexpr uint64_t kElementBytes = 0, kInputs = 4, kOutputs = 8, kCtasPerOutput = 20,
                   kBlockXReduce = 24, kGlobalReduce = 32, kBlockWidth = 44,
                   kBlockHeight = 48, kThreads = 52, kOutputVector = 60;
constexpr uint64_t kConfigBytes = 64;

// OffsetCalculator<n>: dimensions, a divisor with two helpers for each, n strides each.
constexpr uint32_t kMostDimensions = 25;  // MAX_DIMS
constexpr uint64_t kDivisorBytes = 12;
constexpr uint64_t CalculatorBytes(uint64_t operands) {
  return 4 + kMostDimensions * (kDivisorBytes + operands * 4);
}
constexpr uint64_t kHeadBytes = kConfigBytes + CalculatorBytes(1) + CalculatorBytes(2);

// What follows them: source, two destinations, a buffer that parts of a large tensor
// are added up in, two of scratch, an index; two flags, the number of destinations.
constexpr uint64_t kTailBytes = 64, kDestinations = 8, kSharedBuffer = 24,
                   kScratch = 32, kAccumulate = 56, kFinal = 57, kDestinationCount = 60;

template <typename T>
T At(const unsigned char* from, uint64_t offset) {
  T value;
  std::memcpy(&value, from + offset, sizeof value);
  return value;
}

ReduceKernel::Function FunctionOf(std::string_view functor, char type) {
  using Function = ReduceKernel::Function;
  const auto takes = [&](size_t times) {
    return functor.starts_with(std::string(times, type) + "E");
  };
  const bool logical = type == 'b';
  if (Skip(&functor, "ZNS0_11sum_functorI") && takes(3))
    return logical ? Function::kAny : Function::kSum;
  if (Skip(&functor, "NS0_13MaxNanFunctorI") && takes(1))
    return Function::kMax;
  if (Skip(&functor, "NS0_13MinNanFunctorI") && takes(1))
    return Function::kMin;
  if (logical && functor.starts_with("ZZZNS0_14or_kernel_cudaE"))
    return Function::kAny;
  if (logical && functor.starts_with("ZZZNS0_15and_kernel_cudaE"))
    return Function::kAll;
  return Function::kUnknown;
}

uint64_t Count(const std::vector<ReduceDimension>& dimensions) {
  uint64_t count = 1;
  for (const ReduceDimension& dimension : dimensions)
    count *= dimension.size;
  return count;
}

// Reads a calculator whose operands' strides are [input] or [output, input].
bool ReadDimensions(const unsigned char* calculator, uint32_t operands, uint64_t count,
                    std::vector<ReduceDimension>* dimensions) {
  const auto n = At<uint32_t>(calculator, 0);
  if (n > kMostDimensions)
    return false;
  const unsigned char* const strides = calculator + 4 + kMostDimensions * kDivisorBytes;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t own = uint64_t{i} * operands * 4;
    dimensions->push_back(
        {.size = At<uint32_t>(calculator, 4 + i * kDivisorBytes),
         .in_stride = At<uint32_t>(strides, own + (operands - 1) * 4),
         .out_stride = operands == 2 ? At<uint32_t>(strides, own) : 0});
  }
  return Count(*dimensions) == count;
}

// Calls visit(input's offset, output's offset), the first dimension fastest.
template <typename Visit>
void ForEach(const std::vector<ReduceDimension>& dimensions, uint64_t count,
             Visit visit) {
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t rest = i, in = 0, out = 0;
    for (const ReduceDimension& dimension : dimensions) {
      const uint64_t at = rest % dimension.size;
      rest /= dimension.size;
      in += at * dimension.in_stride;
      out += at * dimension.out_stride;
    }
    visit(in, out);
  }
}

template <typename T>
T Combine(ReduceKernel::Function function, T a, T b) {
  switch (function) {
    case ReduceKernel::Function::kMax:
      return std::max(a, b);
    case ReduceKernel::Function::kMin:
      return std::min(a, b);
    case ReduceKernel::Function::kAny:
      return static_cast<T>(a != 0 || b != 0);
    case ReduceKernel::Function::kAll:
      return static_cast<T>(a != 0 && b != 0);
    default:
      // Modulo 2^n, as on the device.
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

template <typename T>
void Reduce(const ReduceKernel& kernel, const ReduceLaunch& launch,
            const unsigned char* in, unsigned char* out) {
  ForEach(launch.kept, launch.outputs, [&](uint64_t base, uint64_t to) {
    T value = At<T>(in, base);
    bool first = true;
    ForEach(launch.reduced, launch.inputs_each, [&](uint64_t offset, uint64_t) {
      const T next = At<T>(in, base + offset);
      value = first ? next : Combine(kernel.function, value, next);
      first = false;
    });
    std::memcpy(out + to, &value, sizeof value);
  });
}

}  // namespace

ReduceKernel ParseReduceKernel(std::string_view mangled) {
  if (!Skip(&mangled, "_ZN2at6native13reduce_kernelI"))
    return {};
  ReduceKernel kernel{.function = ReduceKernel::Function::kUnknown};
  constexpr std::string_view kOperation = "NS0_8ReduceOpI";
  const size_t at = mangled.find(kOperation);
  if (at == std::string_view::npos)
    return kernel;
  mangled.remove_prefix(at + kOperation.size());
  std::string_view chosen = mangled;
  if (const char value = SkipFloatType(&chosen); value != 0) {
    if (Skip(&chosen, "NS0_9ArgMaxOpsI") || Skip(&chosen, "NS0_9ArgMinOpsI")) {
      kernel.choice = ReduceKernel::Choice::kPlace;
      return kernel;
    }
    if (Skip(&chosen, "NS0_6MaxOpsI") || Skip(&chosen, "NS0_6MinOpsI")) {
      kernel.choice = ReduceKernel::Choice::kValueAndPlace;
      kernel.type = value;
      kernel.value_bytes = BytesOf(value);
      return kernel;
    }
  }
  // The type of elements, that of results, what combines them.
  const char type = mangled.empty() ? '\0' : mangled.front();
  mangled.remove_prefix(std::min<size_t>(1, mangled.size()));
  if ((!IsInteger(type) && type != 'b') || !Skip(&mangled, "NS0_14func_wrapper_tI") ||
      mangled.empty() || mangled.front() != type)
    return kernel;
  mangled.remove_prefix(1);
  kernel.function = FunctionOf(mangled, type);
  if (kernel.function != ReduceKernel::Function::kUnknown) {
    kernel.type = type;
    kernel.value_bytes = BytesOf(type);
  }
  return kernel;
}

uint64_t ReduceLaunch::InputSpan() const {
  uint64_t span = 0;
  for (const std::vector<ReduceDimension>* dimensions : {&reduced, &kept})
    for (const ReduceDimension& dimension : *dimensions)
      span += uint64_t{dimension.size - 1} * dimension.in_stride;
  return span;
}

uint64_t ReduceLaunch::OutputSpan() const {
  uint64_t span = 0;
  for (const ReduceDimension& dimension : kept)
    span += uint64_t{dimension.size - 1} * dimension.out_stride;
  return span;
}

uint64_t ReduceLaunch::MostResultBytes() const {
  uint64_t most = accumulated_bytes != 0
                      ? std::min<uint64_t>(accumulated_bytes, kMaxElementBytes)
                      : kMaxElementBytes;
  for (const ReduceDimension& dimension : kept)
    if (dimension.size > 1 && dimension.out_stride != 0)
      most = std::min<uint64_t>(most, dimension.out_stride);
  return most;
}

std::optional<ReduceLaunch> ReadReduction(const unsigned char* structure,
                                          uint64_t bytes, const uint32_t (&grid)[3],
                                          const uint32_t (&block)[3]) {
  constexpr uint64_t kPadding = 4;  // between head and tail, where it is needed
  if (bytes < kHeadBytes + kPadding + kTailBytes)
    return std::nullopt;
  const unsigned char* const tail = structure + bytes - kTailBytes;
  // The operation and its first value come first, of unknown size.
  for (const uint64_t padding : {uint64_t{0}, kPadding}) {
    const unsigned char* const config = tail - padding - kHeadBytes;
    const auto width = At<uint32_t>(config, kBlockWidth);
    const auto height = At<uint32_t>(config, kBlockHeight);
    if (width != block[0] || height != block[1] ||
        At<uint32_t>(config, kThreads) != width * height ||
        At<uint32_t>(config, kCtasPerOutput) != grid[1])
      continue;
    ReduceLaunch launch{
        .from = At<uint64_t>(tail, 0),
        .to = {At<uint64_t>(tail, kDestinations),
               At<uint64_t>(tail, kDestinations + 8)},
        .scratch = {At<uint64_t>(tail, kScratch), At<uint64_t>(tail, kScratch + 8)},
        .outputs = At<uint32_t>(config, kOutputs),
        .inputs_each = At<uint32_t>(config, kInputs),
        .outputs_each = At<uint32_t>(tail, kDestinationCount),
        .accumulated_bytes = At<uint32_t>(config, kElementBytes)};
    launch.whole = At<uint64_t>(tail, kSharedBuffer) == 0 && tail[kAccumulate] == 0 &&
                   tail[kFinal] != 0;
    if (At<uint32_t>(config, kGlobalReduce) != 0) {
      // ReduceConfig::global_memory_size, semaphore_size.
      launch.partial_result_bytes =
          launch.outputs * At<uint32_t>(config, kElementBytes) * grid[1];
      if (At<uint32_t>(config, kBlockXReduce) == 0)
        launch.partial_result_bytes *=
            uint64_t{width} * At<uint32_t>(config, kOutputVector);
      launch.semaphore_bytes = uint64_t{grid[0]} * sizeof(int32_t);
    } else {
      launch.scratch[0] = launch.scratch[1] = 0;
    }
    const unsigned char* const calculators = config + kConfigBytes;
    if (launch.outputs != 0 && launch.inputs_each != 0 && launch.outputs_each >= 1 &&
        launch.outputs_each <= 2 && At<uint64_t>(tail, kSharedBuffer) == 0 &&
        ReadDimensions(calculators, 1, launch.inputs_each, &launch.reduced) &&
        ReadDimensions(calculators + CalculatorBytes(1), 2, launch.outputs,
                       &launch.kept))
      return launch;
  }
  return std::nullopt;
}

bool IsComputable(const ReduceKernel& kernel, const ReduceLaunch& launch) {
  return kernel.value_bytes != 0 &&
         kernel.function != ReduceKernel::Function::kUnknown && launch.whole &&
         launch.outputs_each == 1 &&
         launch.OutputSpan() == (launch.outputs - 1) * kernel.value_bytes;
}

void ComputeReduction(const ReduceKernel& kernel, const ReduceLaunch& launch,
                      const unsigned char* in, unsigned char* out) {
  WithElementType(kernel.type, [&](auto zero) {
    if constexpr (std::is_integral_v<decltype(zero)>)
      Reduce<decltype(zero)>(kernel, launch, in, out);
  });
}

void ReduceEqual(const ReduceKernel& kernel, uint64_t elements, const unsigned char* in,
                 unsigned char* out) {
  std::memcpy(out, in, kernel.value_bytes);
  if (kernel.function != ReduceKernel::Function::kSum)
    return;  // one of them is what all of them are
  WithElementType(kernel.type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      // Modulo 2^n, as on the device.
      const auto sum = static_cast<T>(static_cast<uint64_t>(At<T>(in, 0)) * elements);
      std::memcpy(out, &sum, sizeof sum);
    }
  });
}

}  // namespace vrank::gpu
