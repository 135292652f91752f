// Types of tensors' elements as mangled names say them: 'b' is bool, 'h' unsigned char,
// 'l' long (Itanium C++ ABI, section 5.1.5.2, <builtin-type>). Of PyTorch's classes,
// 'B' stands for c10::BFloat16 and 'H' for c10::Half, in which little is computed;
// complex numbers have no letter.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_ELEMENT_TYPE_H_
#define VRANK_VIRTUAL_GPU_CORE_ELEMENT_TYPE_H_

#include <cstdint>
#include <string_view>

namespace vrank::gpu {

// Calls visit with a zero of the type in which such elements are computed (bool: the
// byte that holds it). False, and no call, for other types, half precision among them.
template <typename Visit>
constexpr bool WithElementType(char type, Visit visit) {
  switch (type) {
    case 'b':
    case 'h':
      visit(uint8_t{});
      return true;
    case 'a':
      visit(int8_t{});
      return true;
    case 's':
      visit(int16_t{});
      return true;
    case 'i':
      visit(int32_t{});
      return true;
    case 'l':
      visit(int64_t{});
      return true;
    case 'f':
      visit(float{});
      return true;
    case 'd':
      visit(double{});
      return true;
  }
  return false;
}

constexpr bool IsHalfPrecision(char type) {
  return type == 'B' || type == 'H';
}

// 0: another type.
constexpr uint32_t BytesOf(char type) {
  uint32_t bytes = IsHalfPrecision(type) ? sizeof(uint16_t) : 0;
  WithElementType(type, [&](auto zero) { bytes = sizeof zero; });
  return bytes;
}

constexpr bool IsInteger(char type) {
  return BytesOf(type) != 0 && type != 'b' && type != 'f' && type != 'd' &&
         !IsHalfPrecision(type);
}

// c10::ScalarType (c10/core/ScalarType.h in PyTorch 2.11), as launches pass it; 0: none
// of the above.
constexpr char TypeOfScalar(int8_t scalar) {
  switch (scalar) {
    case 0:
      return 'h';
    case 1:
      return 'a';
    case 2:
      return 's';
    case 3:
      return 'i';
    case 4:
      return 'l';
    case 6:
      return 'f';
    case 7:
      return 'd';
    case 11:
      return 'b';
  }
  return 0;
}

// Whether the text began with the prefix, which is taken off then.
constexpr bool Skip(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix))
    return false;
  text->remove_prefix(prefix.size());
  return true;
}

// Skips a floating-point type; 0: there is none.
constexpr char SkipFloatType(std::string_view* text) {
  if (Skip(text, "N3c104HalfE"))
    return 'H';
  if (Skip(text, "N3c108BFloat16E"))
    return 'B';
  for (const char type : {'f', 'd'})
    if (text->starts_with(type)) {
      text->remove_prefix(1);
      return type;
    }
  return 0;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ELEMENT_TYPE_H_
