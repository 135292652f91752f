// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/element_kernel.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
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
  if (BytesOf(type) != 0 && !IsHalfPrecision(type) &&
      functor.substr(1).starts_with("E_St5arrayIPcLm2EE"))
    *kernel = {kernel->shape, ElementKernel::Function::kCast, 0, type};
}

// BinaryFunctor<T, T, R, Of<T>>, and AUnaryFunctor and BUnaryFunctor, which hold one of
// the operands. `binary`, `unary`: what they are with that Of.
struct OperatorForm {
  std::string_view of;
  char result;  // 0: the type of the operands
  char only;    // 0: any type
  ElementKernel::Function binary, unary;
};
constexpr OperatorForm kOperators[] = {
    {"16CompareEqFunctorI", 'b', 0, ElementKernel::Function::kEqual,
     ElementKernel::Function::kEqualScalar},
    {"15binary_internal10MulFunctorI", 0, 0, ElementKernel::Function::kMultiply,
     ElementKernel::Function::kMultiplyScalar},
    {"17BitwiseAndFunctorI", 0, 'b', ElementKernel::Function::kAnd,
     ElementKernel::Function::kUnknown},
    {"16BitwiseOrFunctorI", 0, 'b', ElementKernel::Function::kOr,
     ElementKernel::Function::kUnknown},
};

void FindOperator(std::string_view functor, bool unary, ElementKernel* kernel) {
  const std::string_view types = functor.substr(0, 3);
  functor.remove_prefix(types.size());
  if (types.size() < 3 || types[0] != types[1] || BytesOf(types[0]) == 0 ||
      !Skip(&functor, "NS0_"))
    return;
  SkipUnnamedNamespace(&functor);
  for (const OperatorForm& form : kOperators) {
    const char result = form.result != 0 ? form.result : types[0];
    if (Skip(&functor, form.of)) {
      if (functor.starts_with(types[0]) && types[2] == result &&
          (form.only == 0 || form.only == types[0]) && !(unary && types[0] == 'b'))
        *kernel = {kernel->shape, unary ? form.unary : form.binary, types[0], result};
      return;
    }
  }
}

// compare_scalar_kernel<T>(...)::{lambda(T)}.
void FindCompareScalar(std::string_view functor, ElementKernel* kernel) {
  if (functor.size() > 1 && functor[1] == 'E' && BytesOf(functor[0]) != 0 &&
      functor[0] != 'b' && functor.find("EUl") != std::string_view::npos)
    *kernel = {kernel->shape, ElementKernel::Function::kCompareScalar, functor[0], 'b'};
}

void FindFunction(std::string_view functor, ElementKernel* kernel) {
  using Function = ElementKernel::Function;
  Function function;
  if (Skip(&functor, "NS0_13BinaryFunctorI"))
    return FindOperator(functor, false, kernel);
  if (Skip(&functor, "NS0_13AUnaryFunctorI") || Skip(&functor, "NS0_13BUnaryFunctorI"))
    return FindOperator(functor, true, kernel);
  if (Skip(&functor, "ZNS0_21compare_scalar_kernelI"))
    return FindCompareScalar(functor, kernel);
  bool numbers_only = true;
  if (Skip(&functor, "NS0_11FillFunctorI")) {
    function = Function::kFill;
    numbers_only = false;
  } else if (Skip(&functor, "NS0_15CUDAFunctor_addI")) {
    function = Function::kAdd;
  } else if (Skip(&functor, "NS0_21CUDAFunctorOnSelf_addI")) {
    function = Function::kAddScalar;
  } else if (Skip(&functor, "NS0_22CUDAFunctorOnOther_addI")) {
    function = Function::kScalarAdd;
  } else if (Skip(&functor, "NS0_10AbsFunctorI")) {
    function = Function::kAbsolute;
  } else if (Skip(&functor, "NS0_")) {
    SkipUnnamedNamespace(&functor);
    if (!Skip(&functor, "14CompareFunctorI"))
      return;
    function = Function::kCompare;
    numbers_only = false;
  } else {
    return;
  }
  const char type = functor.empty() ? '\0' : functor.front();
  const bool adds = function == Function::kAdd || function == Function::kAddScalar ||
                    function == Function::kScalarAdd;
  if (BytesOf(type) == 0 || (numbers_only && type == 'b') ||
      (adds && IsHalfPrecision(type)) || !functor.substr(1).starts_with("E"))
    return;
  *kernel = {kernel->shape, function, type, type};
  if (IsComparison(*kernel))
    kernel->result = 'b';
}

// Classes of half precision by their letters, here and where the name refers back to
// them: behind at, at::native, the kernel, the functor and c10 they are substitution 4
// (Itanium C++ ABI, section 5.1.10), behind gpu_kernel_impl_nocast, too, 5.
std::string WithLetters(std::string_view functor, std::string_view again) {
  constexpr struct {
    std::string_view name;
    char letter;
  } kClasses[] = {{"N3c108BFloat16E", 'B'}, {"N3c104HalfE", 'H'}};
  std::string text(functor);
  for (const auto& [name, letter] : kClasses) {
    const size_t at = text.find(name);
    if (at == std::string::npos)
      continue;
    text.replace(at, name.size(), 1, letter);
    for (size_t next = text.find(again, at); next != std::string::npos;
         next = text.find(again, next))
      text.replace(next, again.size(), 1, letter);
    break;
  }
  return text;
}

// IEEE 754 binary16, and the upper half of binary32.
float HalfToFloat(char type, uint16_t bits) {
  if (type == 'B')
    return std::bit_cast<float>(uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 0x1f;
  const auto fraction = static_cast<float>(bits & 0x3ff);
  float value;
  if (exponent == 0x1f)
    value = fraction == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
bool Holds(ElementKernel::Function function, int32_t operation, T a, T b) {
  if (function == ElementKernel::Function::kEqual ||
      function == ElementKernel::Function::kEqualScalar)
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

// `stride`: bytes from one element of `b` to the next; 0: a scalar.
template <typename T>
void Compare(const ElementKernel& kernel, int32_t operation, const unsigned char* a,
             const unsigned char* b, uint64_t stride, uint64_t elements,
             unsigned char* out) {
  for (uint64_t i = 0; i < elements; ++i) {
    T x, y;
    std::memcpy(&x, a + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * stride, sizeof(T));
    out[i] = Holds(kernel.function, operation, x, y) ? 1 : 0;
  }
}

template <typename T>
T At(const unsigned char* from, uint64_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

// left + alpha * right: modulo 2^n, as on the device; or rounded once (nvcc's -fmad).
template <typename T>
T MultiplyAndAdd(T left, T alpha, T right) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fma(alpha, right, left);
  else
    return static_cast<T>(static_cast<uint64_t>(left) +
                          static_cast<uint64_t>(alpha) * static_cast<uint64_t>(right));
}

template <typename T>
void Add(const ElementKernel& kernel, const unsigned char* functor,
         const unsigned char* a, const unsigned char* b, uint64_t elements,
         unsigned char* out) {
  using Function = ElementKernel::Function;
  const bool has_scalar = kernel.function != Function::kAdd;
  const T scalar = has_scalar ? At<T>(functor, 0) : T{};
  const T alpha = At<T>(functor, has_scalar ? 1 : 0);
  for (uint64_t i = 0; i < elements; ++i) {
    const T left = kernel.function == Function::kScalarAdd ? scalar : At<T>(a, i);
    const T right = !has_scalar                               ? At<T>(b, i)
                    : kernel.function == Function::kAddScalar ? scalar
                                                              : At<T>(a, i);
    const T sum = MultiplyAndAdd(left, alpha, right);
    std::memcpy(out + i * sizeof(T), &sum, sizeof(T));
  }
}

template <typename T>
T Product(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Products, bool's && and ||, and what lies between a number and zero. bool is a byte
// that is 0 or 1.
template <typename T>
void Combine(const ElementKernel& kernel, const unsigned char* functor,
             const unsigned char* a, const unsigned char* b, uint64_t elements,
             unsigned char* out) {
  using Function = ElementKernel::Function;
  for (uint64_t i = 0; i < elements; ++i) {
    const T left = At<T>(a, i);
    T result = left;
    if (kernel.function == Function::kAbsolute) {
      if constexpr (std::is_floating_point_v<T>)
        result = std::fabs(left);
      else if constexpr (std::is_signed_v<T>)
        result = left < 0 ? Product<T>(left, static_cast<T>(-1)) : left;
    } else {
      const T right = kernel.function == Function::kMultiplyScalar ? At<T>(functor, 1)
                                                                   : At<T>(b, i);
      if (kernel.type == 'b')
        result = static_cast<T>(kernel.function == Function::kOr
                                    ? left != T{} || right != T{}
                                    : left != T{} && right != T{});
      else
        result = Product(left, right);
    }
    std::memcpy(out + i * sizeof(T), &result, sizeof(T));
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

// Fills, signs and comparisons of half precision.
bool ComputeHalves(const ElementKernel& kernel, int32_t operation,
                   const unsigned char* functor, const unsigned char* a,
                   const unsigned char* b, uint64_t elements, unsigned char* out) {
  using Function = ElementKernel::Function;
  const bool scalar = ComparesWithScalar(kernel);
  const unsigned char* const other =
      scalar ? functor + FunctorBytesOf(kernel) - BytesOf(kernel.type) : b;
  for (uint64_t i = 0; i < elements; ++i) {
    if (IsComparison(kernel)) {
      const float left = HalfToFloat(kernel.type, At<uint16_t>(a, i));
      const float right = HalfToFloat(kernel.type, At<uint16_t>(other, scalar ? 0 : i));
      out[i] = Holds(kernel.function, operation, left, right) ? 1 : 0;
      continue;
    }
    if (kernel.function != Function::kFill && kernel.function != Function::kAbsolute)
      return false;
    const auto result = kernel.function == Function::kFill
                            ? At<uint16_t>(functor, 0)
                            : static_cast<uint16_t>(At<uint16_t>(a, i) & 0x7fff);
    std::memcpy(out + i * sizeof result, &result, sizeof result);
  }
  return true;
}

}  // namespace

ElementKernel ParseElementKernel(std::string_view mangled) {
  ElementKernel kernel;
  kernel.shape = ElementKernel::Shape::kOther;
  const bool converts = mangled.find("WithCast") != std::string_view::npos;
  if (Skip(&mangled, "_ZN2at6native29vectorized_elementwise_kernelILi")) {
    const size_t end = mangled.find('E');
    if (const std::string_view at_once = mangled.substr(0, end);
        at_once == "2" || at_once == "4" || at_once == "8")
      kernel.result_bytes = kMaxElementBytes / static_cast<uint64_t>(at_once[0] - '0');
    mangled.remove_prefix(end == std::string_view::npos ? mangled.size() : end + 1);
  } else if (Skip(&mangled, "_ZN2at6native18elementwise_kernelILi128ELi") &&
             mangled.size() > 2 &&
             mangled.substr(1).starts_with("EZNS0_22gpu_kernel_impl_nocastI")) {
    mangled.remove_prefix(std::string_view("4EZNS0_22gpu_kernel_impl_nocastI").size());
    FindFunction(WithLetters(mangled, "S5_"), &kernel);
    if (IsComparison(kernel))
      kernel.shape = ElementKernel::Shape::kStrided;
    return kernel;
  } else if (!Skip(&mangled, "_ZN2at6native27unrolled_elementwise_kernelI")) {
    return kernel;
  }
  kernel.shape = ElementKernel::Shape::kElementwise;
  kernel.converts = converts;
  const std::string functor = WithLetters(mangled, "S4_");
  if (converts)
    FindCast(functor, &kernel);
  else
    FindFunction(functor, &kernel);
  return kernel;
}

bool ReadCast(const unsigned char* load, const unsigned char* store,
              ElementKernel* kernel) {
  kernel->type = TypeOfScalar(static_cast<int8_t>(load[0]));
  return (IsInteger(kernel->type) || kernel->type == 'b') &&
         TypeOfScalar(static_cast<int8_t>(store[0])) == kernel->result;
}

uint64_t StoredBytes(const unsigned char* store) {
  uint32_t bytes;
  std::memcpy(&bytes, store + sizeof bytes, sizeof bytes);
  return std::min<uint64_t>(bytes, kMaxElementBytes);
}

bool ComputeElements(const ElementKernel& kernel, const unsigned char* functor,
                     const unsigned char* a, const unsigned char* b, uint64_t elements,
                     unsigned char* out) {
  using Function = ElementKernel::Function;
  int32_t operation = 0;
  if (IsComparison(kernel)) {
    std::memcpy(&operation, functor, sizeof operation);
    const bool equal = kernel.function == Function::kEqual ||
                       kernel.function == Function::kEqualScalar;
    const int32_t operations = equal ? 2 : 4;
    if (operation < 0 || operation >= operations)
      return false;
  }
  if (IsHalfPrecision(kernel.type))
    return ComputeHalves(kernel, operation, functor, a, b, elements, out);
  return WithElementType(kernel.type, [&](auto zero) {
    using T = decltype(zero);
    if (kernel.function == Function::kFill) {
      for (uint64_t i = 0; i < elements; ++i)
        std::memcpy(out + i * sizeof(T), functor, sizeof(T));
    } else if (ComparesWithScalar(kernel)) {
      const uint32_t at = FunctorBytesOf(kernel) - BytesOf(kernel.type);
      Compare<T>(kernel, operation, a, functor + at, 0, elements, out);
    } else if (IsComparison(kernel)) {
      Compare<T>(kernel, operation, a, b, sizeof(T), elements, out);
    } else if (kernel.function == Function::kAdd ||
               kernel.function == Function::kAddScalar ||
               kernel.function == Function::kScalarAdd) {
      Add<T>(kernel, functor, a, b, elements, out);
    } else if (kernel.function != Function::kCast) {
      Combine<T>(kernel, functor, a, b, elements, out);
    } else if constexpr (std::is_integral_v<T>) {
      WithElementType(kernel.result, [&](auto to) {
        Cast<T, decltype(to)>(kernel.result == 'b', a, elements, out);
      });
    }
  });
}

}  // namespace vrank::gpu
