// The types that occur in kernel parameters, with size and alignment on the device.
//
// The launch of a kernel passes pointers to its parameters and no sizes; the mangled
// name says the types. Sizes of fundamental types and of the vector types are those of
// the CUDA C++ Programming Guide, "Built-in Vector Types"; of half and bfloat16 types
// those of cuda_fp16.h, cuda_bf16.h and cuda_fp8.h.
//
// Thread rule: constants and pure functions.

#ifndef VRANK_BASE_GUEST_MANGLED_TYPES_H_
#define VRANK_BASE_GUEST_MANGLED_TYPES_H_

#include <cstdint>
#include <string_view>

namespace vrank {

enum class ParameterKind : uint8_t {
  kInteger,
  kFloating,
  kPointer,       // to something that the kernel may write
  kConstPointer,  // to something const
  kStruct,        // passed by value
};

struct ParameterType {
  uint32_t size = 0;  // 0: not known
  uint32_t alignment = 1;
  ParameterKind kind = ParameterKind::kStruct;
  bool is_signed = false;  // kInteger
  bool is_const = false;   // of what is pointed to, while a pointer is being read
  bool is_void = false;
  // Depends on a parameter pack; as a template argument: a pack of `size` arguments.
  bool is_pack = false;
};

constexpr ParameterType IntegerType(uint32_t size, bool is_signed) {
  return {size, size, ParameterKind::kInteger, is_signed, false, false, false};
}
constexpr ParameterType FloatingType(uint32_t size) {
  return {size, size, ParameterKind::kFloating, true, false, false, false};
}
constexpr ParameterType StructType(uint32_t size, uint32_t alignment) {
  return {size, alignment, ParameterKind::kStruct, false, false, false, false};
}
constexpr ParameterType PointerType(bool to_const) {
  return {
      8,     8,     to_const ? ParameterKind::kConstPointer : ParameterKind::kPointer,
      false, false, false,
      false};
}

// One-letter types of the Itanium C++ ABI (5.1.5.2), on x86-64. False: no such type.
constexpr bool FindBuiltinType(char letter, ParameterType* type) {
  switch (letter) {
    case 'v':
      *type = {};
      type->is_void = true;
      return true;
    case 'b':
    case 'h':
      *type = IntegerType(1, false);
      return true;
    case 'a':
    case 'c':
      *type = IntegerType(1, true);
      return true;
    case 's':
      *type = IntegerType(2, true);
      return true;
    case 't':
      *type = IntegerType(2, false);
      return true;
    case 'i':
    case 'w':
      *type = IntegerType(4, true);
      return true;
    case 'j':
      *type = IntegerType(4, false);
      return true;
    case 'l':
    case 'x':
      *type = IntegerType(8, true);
      return true;
    case 'm':
    case 'y':
      *type = IntegerType(8, false);
      return true;
    case 'n':
      *type = IntegerType(16, true);
      return true;
    case 'o':
      *type = IntegerType(16, false);
      return true;
    case 'f':
      *type = FloatingType(4);
      return true;
    case 'd':
      *type = FloatingType(8);
      return true;
    default:
      return false;
  }
}

// Classes by the text of their mangled name. Unknown: size 0.
constexpr ParameterType FindClassType(std::string_view mangled) {
  struct Row {
    std::string_view mangled;
    ParameterType type;
  };
  constexpr Row kRows[] = {
      {"6__half", FloatingType(2)},         {"13__nv_bfloat16", FloatingType(2)},
      {"13__nv_fp8_e4m3", FloatingType(1)}, {"13__nv_fp8_e5m2", FloatingType(1)},
      {"7__half2", StructType(4, 4)},       {"14__nv_bfloat162", StructType(4, 4)},
      {"N3c104HalfE", FloatingType(2)},     {"N3c108BFloat16E", FloatingType(2)},
      {"4dim3", StructType(12, 4)},
  };
  for (const Row& row : kRows) {
    if (row.mangled == mangled)
      return row.type;
  }
  return {};
}

// float2, uchar4, ...: an element type and a digit. Two and four elements are aligned
// as a whole, to 16 bytes at most; one and three like the element. The names with _16a
// and _32a (CUDA 13, four elements of 8 bytes) say their alignment.
constexpr ParameterType FindVectorType(std::string_view name) {
  struct Element {
    std::string_view name;
    uint32_t size;
  };
  constexpr Element kElements[] = {
      {"char", 1},  {"uchar", 1},  {"short", 2},    {"ushort", 2},
      {"int", 4},   {"uint", 4},   {"long", 8},     {"ulong", 8},
      {"float", 4}, {"double", 8}, {"longlong", 8}, {"ulonglong", 8},
  };
  uint32_t stated = 0;
  if (name.size() > 4 && name.substr(name.size() - 4) == "_16a")
    stated = 16;
  else if (name.size() > 4 && name.substr(name.size() - 4) == "_32a")
    stated = 32;
  if (stated != 0)
    name.remove_suffix(4);
  if (name.empty() || name.back() < '1' || name.back() > '4')
    return {};
  const uint32_t count = static_cast<uint32_t>(name.back() - '0');
  name.remove_suffix(1);
  for (const Element& element : kElements) {
    if (element.name != name)
      continue;
    const uint32_t whole = element.size * count;
    if (stated != 0)
      return element.size == 8 && count == 4 ? StructType(whole, stated)
                                             : ParameterType{};
    const uint32_t aligned = whole < 16 ? whole : 16;
    return StructType(whole, count == 1 || count == 3 ? element.size : aligned);
  }
  return {};
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_MANGLED_TYPES_H_
