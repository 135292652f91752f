// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/element_kernel.h"

#include <cstring>
#include <type_traits>

namespace vrank::gpu {
namespace {

// An unnamed namespace that the compiler gave a name: <length>_GLOBAL__N_...
void SkipUnnamedNamespace(std::string_view* text) {
  uint64_t length = 0;
  size_t digits = 0;
  while (digits < text->size() && digits < 4 && (*text)[digits] >= '0' &&
         (*text)[digits] <= '9')
    length = length * 10 + static_cast<uint64_t>((*text)[digits++] - '0');
  if (text->substr(digits).starts_with("_GLOBAL__N_") &&
      digits + length <= text->size())
    text->remove_prefix(digits + length);
}

// direct_copy_kernel_cuda(...)::...::{lambda(T)}, of T, in elements side by side.
void FindCast(std::string_view functor, ElementKernel* kernel) {
  const size_t lambda = functor.find("EUl");
  if (!functor.starts_with("ZZZNS0_23direct_copy_kernel_cudaE") ||
      lambda == std::string_view::npos)
    return;
  functor.remove_prefix(lambda + 3);
  const char type = functor.empty() ? '\0' : functor.front();
  if (BytesOf(type) != 0 && functor.substr(1).starts_with("E_St5arrayIPcLm2EE"))
    *kernel = {kernel->shape, ElementKernel::Function::kCast, 0, type};
}

void FindFunction(std::string_view functor, ElementKernel* kernel) {
  using Function = ElementKernel::Function;
  Function function;
  bool integers_only = false;
  if (Skip(&functor, "NS0_11FillFunctorI")) {
    function = Function::kFill;
  } else if (Skip(&functor, "NS0_15CUDAFunctor_addI")) {
    function = Function::kAdd;
    integers_only = true;
  } else if (Skip(&functor, "NS0_21CUDAFunctorOnSelf_addI")) {
    function = Function::kAddScalar;
    integers_only = true;
  } else if (Skip(&functor, "NS0_22CUDAFunctorOnOther_addI")) {
    function = Function::kScalarAdd;
    integers_only = true;
  } else if (Skip(&functor, "NS0_13BinaryFunctorI")) {
    // Both inputs of the type that is compared.
    const std::string_view types = functor.substr(0, 3);
    functor.remove_prefix(types.size());
    if (types.size() < 3 || types[0] != types[1] || types[2] != 'b' ||
        !Skip(&functor, "NS0_"))
      return;
    SkipUnnamedNamespace(&functor);
    if (!Skip(&functor, "16CompareEqFunctorI") || !functor.starts_with(types[0]))
      return;
    function = Function::kEqual;
  } else if (Skip(&functor, "NS0_")) {
    SkipUnnamedNamespace(&functor);
    if (!Skip(&functor, "14CompareFunctorI"))
      return;
    function = Function::kCompare;
  } else {
    return;
  }
  const char type = functor.empty() ? '\0' : functor.front();
  if (BytesOf(type) == 0 || (integers_only && !IsInteger(type)) ||
      !functor.substr(1).starts_with("E"))
    return;
  *kernel = {kernel->shape, function, type, type};
  if (IsComparison(*kernel))
    kernel->result = 'b';
}

template <typename T>
bool Holds(ElementKernel::Function function, int32_t operation, T a, T b) {
  if (function == ElementKernel::Function::kEqual)
    return operation == 0 ? a == b : a != b;
  switch (operation) {
    case 0:
      return a >= b;
    case 1:
      return a > b;
    case 2:
      return a <= b;
    default:
      return a < b;
  }
}

template <typename T>
void Compare(const ElementKernel& kernel, int32_t operation, const unsigned char* a,
             const unsigned char* b, uint64_t elements, unsigned char* out) {
  for (uint64_t i = 0; i < elements; ++i) {
    T x, y;
    std::memcpy(&x, a + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * sizeof(T), sizeof(T));
    out[i] = Holds(kernel.function, operation, x, y) ? 1 : 0;
  }
}

template <typename T>
uint64_t At(const unsigned char* from, uint64_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return static_cast<uint64_t>(value);
}

// Modulo 2^n, as on the device.
template <typename T>
void Add(const ElementKernel& kernel, const unsigned char* functor,
         const unsigned char* a, const unsigned char* b, uint64_t elements,
         unsigned char* out) {
  using Function = ElementKernel::Function;
  const bool has_scalar = kernel.function != Function::kAdd;
  const uint64_t scalar = At<T>(functor, 0);
  const uint64_t alpha = At<T>(functor, has_scalar ? 1 : 0);
  for (uint64_t i = 0; i < elements; ++i) {
    const uint64_t left =
        kernel.function == Function::kScalarAdd ? scalar : At<T>(a, i);
    const uint64_t right = !has_scalar                               ? At<T>(b, i)
                           : kernel.function == Function::kAddScalar ? scalar
                                                                     : At<T>(a, i);
    const auto sum = static_cast<T>(left + alpha * right);
    std::memcpy(out + i * sizeof(T), &sum, sizeof(T));
  }
}

// From an integer or a bool, to which any number but zero is true.
template <typename From, typename To>
void Cast(bool to_bool, const unsigned char* from, uint64_t elements,
          unsigned char* out) {
  for (uint64_t i = 0; i < elements; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    const To result =
        to_bool ? static_cast<To>(value != 0 ? 1 : 0) : static_cast<To>(value);
    std::memcpy(out + i * sizeof(To), &result, sizeof(To));
  }
}

}  // namespace

ElementKernel ParseElementKernel(std::string_view mangled) {
  ElementKernel kernel;
  kernel.shape = ElementKernel::Shape::kOther;
  const bool converts = mangled.find("WithCast") != std::string_view::npos;
  if (Skip(&mangled, "_ZN2at6native29vectorized_elementwise_kernelILi")) {
    const size_t end = mangled.find('E');
    mangled.remove_prefix(end == std::string_view::npos ? mangled.size() : end + 1);
  } else if (!Skip(&mangled, "_ZN2at6native27unrolled_elementwise_kernelI")) {
    return kernel;
  }
  kernel.shape = ElementKernel::Shape::kElementwise;
  if (converts)
    FindCast(mangled, &kernel);
  else
    FindFunction(mangled, &kernel);
  return kernel;
}

bool ReadCast(const unsigned char* load, const unsigned char* store,
              ElementKernel* kernel) {
  kernel->type = TypeOfScalar(static_cast<int8_t>(load[0]));
  return (IsInteger(kernel->type) || kernel->type == 'b') &&
         TypeOfScalar(static_cast<int8_t>(store[0])) == kernel->result;
}

bool ComputeElements(const ElementKernel& kernel, const unsigned char* functor,
                     const unsigned char* a, const unsigned char* b, uint64_t elements,
                     unsigned char* out) {
  using Function = ElementKernel::Function;
  int32_t operation = 0;
  if (IsComparison(kernel)) {
    std::memcpy(&operation, functor, sizeof operation);
    const int32_t operations = kernel.function == Function::kEqual ? 2 : 4;
    if (operation < 0 || operation >= operations)
      return false;
  }
  return WithElementType(kernel.type, [&](auto zero) {
    using T = decltype(zero);
    if (kernel.function == Function::kFill) {
      for (uint64_t i = 0; i < elements; ++i)
        std::memcpy(out + i * sizeof(T), functor, sizeof(T));
    } else if (IsComparison(kernel)) {
      Compare<T>(kernel, operation, a, b, elements, out);
    } else if constexpr (std::is_integral_v<T>) {
      if (kernel.function == Function::kCast)
        WithElementType(kernel.result, [&](auto to) {
          Cast<T, decltype(to)>(kernel.result == 'b', a, elements, out);
        });
      else
        Add<T>(kernel, functor, a, b, elements, out);
    }
  });
}

}  // namespace vrank::gpu
