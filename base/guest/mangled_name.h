// Reads a mangled function name (Itanium C++ ABI, 5.1) as far as kernels need it: which
// parameters there are, how large, and which of them are pointers.
//
// Not a demangler: nothing is printed. What matters is to follow the numbering of
// substitutions (S_, S0_, ...) and template parameters (T_, T0_, ...) exactly, because
// parameters refer to it. Forms that do not tell a parameter's size end in a type of
// size 0; forms that are not read at all (expressions, decltype) make Parse fail.
//
// Runs in somebody else's process: no allocation, tables of fixed size, bounded
// recursion, any bytes as input.
//
// Thread rule: one object belongs to one call.

#ifndef VRANK_BASE_GUEST_MANGLED_NAME_H_
#define VRANK_BASE_GUEST_MANGLED_NAME_H_

#include <cstdint>
#include <string_view>

#include "base/guest/mangled_types.h"

namespace vrank {

class MangledName {
 public:
  static constexpr uint32_t kMaxParameters = 64;

  explicit MangledName(std::string_view text) : text_(text) {}

  // Reads the whole name. False where it is no mangled function name or has a form that
  // is not read; base_name() and the first parameters may be known all the same.
  bool Parse() {
    at_ = 2;
    return text_.substr(0, 2) == "_Z" && ParseFunction() &&
           (at_ == text_.size() || Peek() == '.');
  }

  // The function's own name, without scope and template arguments; empty if not
  // reached.
  std::string_view base_name() const { return base_name_; }
  uint32_t parameters() const { return parameters_; }
  const ParameterType& parameter(uint32_t index) const { return types_[index]; }

 private:
  static constexpr uint32_t kMaxSubstitutions = 128;
  static constexpr uint32_t kMaxArguments = 128;
  static constexpr uint32_t kMaxDepth = 48;

  // Template arguments lie in arguments_[begin, end); a pack is one entry that counts
  // the entries after it.
  struct Arguments {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  struct Name {
    std::string_view last;  // its last part
    ParameterType type;     // read as the name of a class
    bool has_arguments = false;
    Arguments arguments;
  };
  // Counts one level of recursion while it lives.
  class Level {
   public:
    explicit Level(uint32_t* depth) : depth_(depth) { ++*depth_; }
    ~Level() { --*depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool too_deep() const { return *depth_ > kMaxDepth; }

   private:
    uint32_t* depth_;
  };

  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Skip(char c) {
    if (Peek() != c)
      return false;
    ++at_;
    return true;
  }
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool EndsFunction(char c) { return c == '\0' || c == 'E' || c == '.'; }

  bool AddSubstitution(const ParameterType& type) {
    if (substitution_count_ == kMaxSubstitutions)
      return false;
    substitutions_[substitution_count_++] = type;
    return true;
  }

  // <function> := <name> [<return type>] <parameter types>. The outermost one is the
  // kernel; the others are scopes of local types.
  bool ParseFunction();
  bool ParseParameter(bool record);
  bool Record(const ParameterType& type);
  bool ParseType(ParameterType* type);
  bool ParseClassType(ParameterType* type);
  // F [Y] <return type> <parameter types> E
  bool ParseFunctionType(ParameterType* type);
  // A [<number>] _ <element type>; by value only as a template argument.
  bool ParseArrayType(ParameterType* type);
  // T_ is argument 0 of the function's template, T0_ is argument 1.
  bool ParseTemplateParameter(ParameterType* type);
  ParameterType Argument(uint32_t index);
  // S_, S0_, ... or one of the abbreviations for std classes.
  bool ParseSubstitution(ParameterType* type);
  // A template's name may be followed by its arguments: then it is another type.
  bool ParseArgumentsOfType(ParameterType* type);
  bool ParseExtendedType(ParameterType* type);
  bool ParseName(Name* name);
  // N [qualifiers] <part> ... E; every part but the last is numbered.
  bool ParseNestedName(Name* name);
  // Z <function> E <name> [<discriminator>]: something declared inside a function.
  bool ParseLocalName(Name* name);
  bool ParseUnqualifiedName(std::string_view* name);
  // Ut [<number>] _, or the lambda Ul <parameter types> E [<number>] _
  bool ParseUnnamedType();
  bool ParseSourceName(std::string_view* name);
  // "_" is 0, "0_" is 1; digits, then capital letters.
  bool ParseSequence(uint32_t base, uint32_t* index);
  // I <argument> ... E
  bool ParseArguments(Arguments* arguments);
  bool AddArgument(const ParameterType& type);
  bool ParseArgument();
  // L <type> <value> E, or the address of something global: L _Z <function> E, also
  // X ad L _Z <function> E E.
  bool ParseLiteral();

  std::string_view text_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  std::string_view base_name_;
  uint32_t parameters_ = 0;
  ParameterType types_[kMaxParameters];
  uint32_t substitution_count_ = 0;
  ParameterType substitutions_[kMaxSubstitutions];
  uint32_t argument_count_ = 0;
  ParameterType arguments_[kMaxArguments];
  Arguments scope_;          // what T_ means
  int32_t pack_index_ = -1;  // argument of the pack that is being expanded
  uint32_t pack_size_ = 0;
};

}  // namespace vrank

#include "base/guest/mangled_name_parts.h"
#include "base/guest/mangled_name_types.h"

#endif  // VRANK_BASE_GUEST_MANGLED_NAME_H_
