// What cost files go by: names of kernels, and what their template arguments are worth.

#include <cxxabi.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "graph/models/kernel_costs.h"

namespace vrank::graph {

std::optional<double> CaptureValue(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kTypes[] = {
      {"true", 1},
      {"false", 0},
      {"float", 4},
      {"double", 8},
      {"long", 8},
      {"unsigned long", 8},
      {"long long", 8},
      {"unsigned long long", 8},
      {"int", 4},
      {"unsigned int", 4},
      {"short", 2},
      {"unsigned short", 2},
      {"char", 1},
      {"signed char", 1},
      {"unsigned char", 1},
      {"bool", 1},
      {"c10::BFloat16", 2},
      {"c10::Half", 2},
      {"__nv_bfloat16", 2},
      {"__half", 2},
      {"cutlass::bfloat16_t", 2},
      {"cutlass::half_t", 2},
      {"c10::Float8_e4m3fn", 1},
      {"c10::Float8_e5m2", 1},
      {"c10::complex<float>", 8},
      {"c10::complex<double>", 16}};
  for (const auto& [name, value] : kTypes) {
    if (name == text) {
      return value;
    }
  }
  // "128", and as a template argument "128u", "2ul".
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (error != std::errc() ||
      (rest != "" && rest != "u" && rest != "l" && rest != "ul")) {
    return std::nullopt;
  }
  return number;
}

std::string Demangle(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  if (text == nullptr) {
    return mangled;
  }
  std::string demangled = text;
  std::free(text);
  return demangled;
}

std::string QualifiedName(const std::string& demangled) {
  // Everything inside angle brackets goes; the name ends at the first parenthesis
  // outside them that is not "(anonymous namespace)"; it begins after the last space
  // before that.
  const std::string anonymous = "(anonymous namespace)";
  std::string name;
  int depth = 0;
  for (size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    if (c == '<') {
      ++depth;
    } else if (c == '>') {
      --depth;
    } else if (depth == 0 && demangled.compare(i, anonymous.size(), anonymous) == 0) {
      name += "(anonymous";
      i += anonymous.size() - 1;
      name += ")";
    } else if (depth == 0 && c == '(') {
      break;
    } else if (depth == 0) {
      name = c == ' ' ? "" : name + c;
    }
  }
  return name;
}

}  // namespace vrank::graph
