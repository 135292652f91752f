// How MangledName reads names: scopes, local names, template arguments.
//
// Part of base/guest/mangled_name.h, which includes it.

#ifndef VRANK_BASE_GUEST_MANGLED_NAME_PARTS_H_
#define VRANK_BASE_GUEST_MANGLED_NAME_PARTS_H_

#include "base/guest/mangled_name.h"

namespace vrank {

inline bool MangledName::ParseName(Name* name) {
  Level level(&depth_);
  if (level.too_deep())
    return false;
  const size_t begin = at_;
  bool good;
  if (Peek() == 'N') {
    good = ParseNestedName(name);
  } else if (Peek() == 'Z') {
    good = ParseLocalName(name);
  } else {
    if (Peek() == 'S' && Peek(1) == 't')
      at_ += 2;
    good = ParseUnqualifiedName(&name->last);
    if (good && Peek() == 'I') {
      name->has_arguments = true;
      good = AddSubstitution({}) && ParseArguments(&name->arguments);
    } else if (good && IsDigit(text_[begin])) {
      name->type = FindVectorType(name->last);
    }
  }
  if (good && !name->has_arguments && name->type.size == 0)
    name->type = FindClassType(text_.substr(begin, at_ - begin));
  return good;
}

inline bool MangledName::ParseNestedName(Name* name) {
  ++at_;
  while (Peek() == 'r' || Peek() == 'V' || Peek() == 'K' || Peek() == 'R' ||
         Peek() == 'O')
    ++at_;
  for (bool first = true; !Skip('E'); first = false) {
    name->has_arguments = false;
    if (Peek() == 'I') {
      if (first || !ParseArguments(&name->arguments))
        return false;
      name->has_arguments = true;
    } else if (Peek() == 'S' && Peek(1) == 't') {
      at_ += 2;
      continue;  // "std" has no number
    } else if (Peek() == 'S' || Peek() == 'T') {
      // Has its number already, or takes it there.
      ParameterType type;
      if (!first ||
          !(Peek() == 'S' ? ParseSubstitution(&type) : ParseTemplateParameter(&type)))
        return false;
      continue;
    } else if (!ParseUnqualifiedName(&name->last)) {
      return false;
    }
    if (Peek() != 'E' && !AddSubstitution({}))
      return false;
  }
  return true;
}

inline bool MangledName::ParseLocalName(Name* name) {
  ++at_;
  if (!ParseFunction() || !Skip('E'))
    return false;
  if (!Skip('s') && !ParseName(name))
    return false;
  name->type = {};
  if (Skip('_')) {
    Skip('_');
    while (IsDigit(Peek()))
      ++at_;
    Skip('_');
  }
  return true;
}

inline bool MangledName::ParseUnqualifiedName(std::string_view* name) {
  Skip('L');  // internal linkage
  if (Peek() == 'U' && (Peek(1) == 'l' || Peek(1) == 't'))
    return ParseUnnamedType();
  if (Peek() >= 'a' && Peek() <= 'z' && Peek(1) >= 'a' && Peek(1) <= 'z') {
    at_ += 2;  // an operator
    return true;
  }
  if (!ParseSourceName(name))
    return false;
  while (Skip('B')) {  // ABI tags
    std::string_view tag;
    if (!ParseSourceName(&tag))
      return false;
  }
  return true;
}

inline bool MangledName::ParseUnnamedType() {
  const bool lambda = Peek(1) == 'l';
  at_ += 2;
  ParameterType type;
  while (lambda && !Skip('E')) {
    if (!ParseType(&type))
      return false;
  }
  while (IsDigit(Peek()))
    ++at_;
  return Skip('_');
}

inline bool MangledName::ParseSourceName(std::string_view* name) {
  size_t length = 0;
  while (IsDigit(Peek()) && length < text_.size())
    length = length * 10 + static_cast<size_t>(text_[at_++] - '0');
  if (length == 0 || length > text_.size() - at_)
    return false;
  *name = text_.substr(at_, length);
  at_ += length;
  return true;
}

inline bool MangledName::ParseSequence(uint32_t base, uint32_t* index) {
  uint32_t value = 0;
  bool any = false;
  for (char c = Peek(); c != '_'; c = Peek()) {
    const uint32_t digit = IsDigit(c)             ? static_cast<uint32_t>(c - '0')
                           : c >= 'A' && c <= 'Z' ? static_cast<uint32_t>(c - 'A') + 10
                                                  : base;
    if (digit >= base || value > kMaxSubstitutions)
      return false;
    value = value * base + digit;
    any = true;
    ++at_;
  }
  ++at_;
  *index = any ? value + 1 : 0;
  return true;
}

inline bool MangledName::ParseArguments(Arguments* arguments) {
  ++at_;
  arguments->begin = argument_count_;
  while (!Skip('E')) {
    if (!ParseArgument())
      return false;
  }
  arguments->end = argument_count_;
  return true;
}

inline bool MangledName::AddArgument(const ParameterType& type) {
  if (argument_count_ == kMaxArguments)
    return false;
  arguments_[argument_count_++] = type;
  return true;
}

inline bool MangledName::ParseArgument() {
  Level level(&depth_);
  if (level.too_deep())
    return false;
  ParameterType type;
  if (Peek() == 'L' || Peek() == 'X')
    return ParseLiteral() && AddArgument({});
  if (!Skip('J'))
    return ParseType(&type) && AddArgument(type);
  const uint32_t pack = argument_count_;
  type.is_pack = true;
  if (!AddArgument(type))
    return false;
  while (!Skip('E')) {
    if (Peek() == 'J' || !ParseArgument())
      return false;
  }
  arguments_[pack].size = argument_count_ - pack - 1;
  return true;
}

inline bool MangledName::ParseLiteral() {
  const bool expression = Skip('X');
  if (expression && !(Skip('a') && Skip('d')))
    return false;
  if (!Skip('L'))
    return false;
  if (Peek() == '_' && Peek(1) == 'Z') {
    at_ += 2;
    const uint32_t count = argument_count_;
    if (!ParseFunction())
      return false;
    argument_count_ = count;
  } else {
    ParameterType type;
    if (!ParseType(&type))
      return false;
    while (IsDigit(Peek()) || (Peek() >= 'a' && Peek() <= 'z') || Peek() == '_')
      ++at_;
  }
  return Skip('E') && (!expression || Skip('E'));
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_MANGLED_NAME_PARTS_H_
