// How MangledName reads functions, parameters and types.
//
// Part of base/guest/mangled_name.h, which includes it.

#ifndef VRANK_BASE_GUEST_MANGLED_NAME_TYPES_H_
#define VRANK_BASE_GUEST_MANGLED_NAME_TYPES_H_

#include "base/guest/mangled_name.h"

namespace vrank {

inline bool MangledName::ParseFunction() {
  Level level(&depth_);
  if (level.too_deep())
    return false;
  const bool outermost = depth_ == 1;
  Name name;
  const bool named = ParseName(&name);
  if (outermost)
    base_name_ = name.last;
  if (!named || (outermost && EndsFunction(Peek())))
    return false;
  const Arguments scope = scope_;
  scope_ = name.arguments;
  ParameterType type;
  // Only functions made from templates say what they return.
  bool good = !name.has_arguments || ParseType(&type);
  if (good && Peek() == 'v' && EndsFunction(Peek(1)))
    ++at_;
  while (good && !EndsFunction(Peek()))
    good = ParseParameter(outermost);
  scope_ = scope;
  return good;
}

inline bool MangledName::ParseParameter(bool record) {
  ParameterType type;
  if (Peek() != 'D' || Peek(1) != 'p')
    return ParseType(&type) && !type.is_void && (!record || Record(type));
  // An expansion: the same text once for each argument of its pack.
  at_ += 2;
  const size_t pattern = at_;
  const uint32_t substitutions = substitution_count_;
  pack_size_ = 0;
  for (uint32_t i = 0; i == 0 || i < pack_size_; ++i) {
    at_ = pattern;
    substitution_count_ = substitutions;
    pack_index_ = static_cast<int32_t>(i);
    const bool good = ParseType(&type);
    pack_index_ = -1;
    if (!good || (i < pack_size_ && record && !Record(type)))
      return false;
  }
  type.is_pack = true;
  for (uint32_t i = substitutions; i < substitution_count_; ++i)
    substitutions_[i].is_pack = true;
  return AddSubstitution(type);
}

inline bool MangledName::Record(const ParameterType& type) {
  // A second use of an expanded pack: which arguments it stands for is not tracked.
  if (type.is_pack || parameters_ == kMaxParameters)
    return false;
  types_[parameters_++] = type;
  return true;
}

inline bool MangledName::ParseType(ParameterType* type) {
  Level level(&depth_);
  if (level.too_deep())
    return false;
  switch (Peek()) {
    case 'r':
    case 'V':
    case 'K': {
      bool is_const = false;
      while (Peek() == 'r' || Peek() == 'V' || Peek() == 'K')
        is_const |= text_[at_++] == 'K';
      if (!ParseType(type))
        return false;
      type->is_const |= is_const;
      return AddSubstitution(*type);
    }
    case 'P':
    case 'R':
    case 'O': {
      ++at_;
      if (!ParseType(type))
        return false;
      const bool is_pack = type->is_pack;
      *type = PointerType(type->is_const);
      type->is_pack = is_pack;
      return AddSubstitution(*type);
    }
    case 'F':
      return ParseFunctionType(type);
    case 'A':
      return ParseArrayType(type);
    case 'T':
      return ParseTemplateParameter(type);
    case 'S':
      if (Peek(1) != 't')
        return ParseSubstitution(type);
      break;
    case 'D':
      return ParseExtendedType(type);
    case 'u': {
      ++at_;
      std::string_view name;
      *type = {};
      return ParseSourceName(&name) && AddSubstitution(*type);
    }
  }
  if (FindBuiltinType(Peek(), type)) {
    ++at_;
    return true;
  }
  return ParseClassType(type);
}

inline bool MangledName::ParseClassType(ParameterType* type) {
  if (Peek() != 'N' && Peek() != 'Z' && Peek() != 'S' && !IsDigit(Peek()))
    return false;
  const uint32_t arguments = argument_count_;
  Name name;
  if (!ParseName(&name))
    return false;
  argument_count_ = arguments;
  *type = name.type;
  return AddSubstitution(*type);
}

inline bool MangledName::ParseFunctionType(ParameterType* type) {
  ++at_;
  Skip('Y');
  while (!Skip('E')) {
    if (!ParseType(type))
      return false;
  }
  *type = {};
  return AddSubstitution(*type);
}

inline bool MangledName::ParseArrayType(ParameterType* type) {
  ++at_;
  while (IsDigit(Peek()))
    ++at_;
  if (!Skip('_') || !ParseType(type))
    return false;
  const bool is_const = type->is_const;
  *type = {};
  type->is_const = is_const;
  return AddSubstitution(*type);
}

inline bool MangledName::ParseTemplateParameter(ParameterType* type) {
  ++at_;
  uint32_t index;
  if (!ParseSequence(10, &index))
    return false;
  *type = Argument(index);
  return AddSubstitution(*type) && ParseArgumentsOfType(type);
}

inline ParameterType MangledName::Argument(uint32_t index) {
  uint32_t at = scope_.begin;
  for (; index > 0 && at < scope_.end; --index)
    at += 1 + (arguments_[at].is_pack ? arguments_[at].size : 0);
  if (at >= scope_.end)
    return {};
  const ParameterType& found = arguments_[at];
  if (!found.is_pack)
    return found;
  pack_size_ = found.size;
  ParameterType type;
  if (pack_index_ >= 0 && static_cast<uint32_t>(pack_index_) < found.size)
    type = arguments_[at + 1 + static_cast<uint32_t>(pack_index_)];
  type.is_pack = pack_index_ < 0;
  return type;
}

inline bool MangledName::ParseSubstitution(ParameterType* type) {
  ++at_;
  const char c = Peek();
  if (c >= 'a' && c <= 'z') {
    ++at_;
    *type = {};
    return std::string_view("absiod").find(c) != std::string_view::npos &&
           ParseArgumentsOfType(type);
  }
  uint32_t index;
  if (!ParseSequence(36, &index) || index >= substitution_count_)
    return false;
  *type = substitutions_[index];
  return ParseArgumentsOfType(type);
}

inline bool MangledName::ParseArgumentsOfType(ParameterType* type) {
  if (Peek() != 'I')
    return true;
  const uint32_t count = argument_count_;
  Arguments arguments;
  if (!ParseArguments(&arguments))
    return false;
  argument_count_ = count;
  *type = {};
  return AddSubstitution(*type);
}

inline bool MangledName::ParseExtendedType(ParameterType* type) {
  const char c = Peek(1);
  at_ += 2;
  switch (c) {
    case 'h':
      *type = FloatingType(2);
      return true;
    case 'F':  // DF16_, DF16b, DF32_, ...
      if (Peek() != '1' || Peek(1) != '6' || (Peek(2) != '_' && Peek(2) != 'b'))
        return false;
      at_ += 3;
      *type = FloatingType(2);
      return true;
    case 'i':
      *type = IntegerType(4, false);
      return true;
    case 's':
      *type = IntegerType(2, false);
      return true;
    case 'u':
      *type = IntegerType(1, false);
      return true;
    case 'n':
      *type = PointerType(true);
      return true;
    default:
      return false;
  }
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_MANGLED_NAME_TYPES_H_
