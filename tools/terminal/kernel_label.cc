#include "tools/terminal/kernel_label.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

constexpr std::string_view kGap = "...";
// What is left of an argument that loses its middle.
constexpr size_t kLeastArgument = 24;

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         c == '_' || c == '$';
}

// The index behind the bracket that closes the one at `open`; npos: none does.
size_t EndOf(std::string_view text, size_t open) {
  const char begin = text[open], end = begin == '<' ? '>' : ')';
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    depth += text[i] == begin ? 1 : text[i] == end ? -1 : 0;
    if (depth == 0)
      return i + 1;
  }
  return std::string_view::npos;
}

void RemoveAll(std::string_view part, std::string* text) {
  for (size_t at; (at = text->find(part)) != std::string::npos;)
    text->erase(at, part.size());
}

// "f(A&)::{lambda()#3}::operator()() const::{lambda(float)#1}" -> "f::lambda(float)".
std::string WithPlainLambdas(std::string text) {
  constexpr std::string_view kLambda = "{lambda(", kCall = "::operator()() const";
  for (size_t at = 0; (at = text.find(kLambda, at)) != std::string::npos;) {
    const size_t close = EndOf(text, at + kLambda.size() - 1);
    const size_t brace = close == std::string::npos ? close : text.find('}', close);
    if (brace == std::string::npos)
      return text;
    // Another one within, which takes what the kernel computes with.
    if (std::string_view(text).substr(brace + 1).starts_with(kCall) &&
        std::string_view(text).substr(brace + 1 + kCall.size()).starts_with("::{")) {
      text.erase(at, brace + 1 + kCall.size() + 2 - at);
      continue;
    }
    text.erase(close, brace + 1 - close);
    text.erase(at, 1);
    // Parameters of the function that it is in.
    if (at >= 3 && text.compare(at - 3, 3, ")::") == 0) {
      size_t open = at - 3;
      for (int depth = 0; open > 0; --open) {
        depth += text[open] == ')' ? 1 : text[open] == '(' ? -1 : 0;
        if (depth == 0)
          break;
      }
      text.erase(open, at - 2 - open);
      at = open;
    }
    at += 1;
  }
  return text;
}

std::string WithoutNamespaces(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && IsWord(text[end]))
      ++end;
    if (end == i) {
      result += text[i++];
      continue;
    }
    // "lambda(float)" says nothing without its function.
    const bool is_namespace = text.substr(end).starts_with("::") &&
                              !text.substr(end).starts_with("::lambda(");
    if (!is_namespace)
      result += text.substr(i, end - i);
    i = is_namespace ? end + 2 : end;
  }
  return result;
}

// The parts between commas outside of brackets.
std::vector<std::string> Arguments(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '<' || c == '(' ? 1 : c == '>' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else if (c != ' ' || !parts.back().empty())
      parts.back() += c;
  }
  return parts;
}

bool TellsNothing(std::string_view argument) {
  if (argument == "true" || argument == "false" ||
      std::all_of(argument.begin(), argument.end(), [](char c) {
        return (c >= '0' && c <= '9') || c == 'u' || c == 'l';
      }))
    return true;
  constexpr std::string_view kLaunch[] = {
      "array<char*",      "TrivialOffsetCalculator<", "OffsetCalculator<",
      "LoadWithCast<",    "LoadWithoutCast",          "StoreWithCast<",
      "StoreWithoutCast", "TensorListMetadata<",      "TensorListScalarListMetadata<"};
  return std::any_of(
      std::begin(kLaunch), std::end(kLaunch),
      [&](std::string_view begin) { return argument.starts_with(begin); });
}

// What a functor applies, where it only says to how many operands.
std::string Unwrapped(const std::string& argument) {
  constexpr std::string_view kWrappers[] = {"BinaryFunctor<", "AUnaryFunctor<",
                                            "BUnaryFunctor<"};
  for (const std::string_view wrapper : kWrappers)
    if (argument.starts_with(wrapper) && argument.ends_with('>'))
      return Arguments(std::string_view(argument).substr(
                           wrapper.size(), argument.size() - wrapper.size() - 1))
          .back();
  return argument;
}

// Arguments deeper than `depth` are "...".
std::string ToDepth(std::string_view text, int depth) {
  std::string result;
  int at = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<' && at == depth) {
      const size_t end = EndOf(text, i);
      result += "<...>";
      i = end - 1;
      continue;
    }
    at += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    result += text[i];
  }
  return result;
}

std::string Joined(const std::string& name, const std::vector<std::string>& arguments) {
  std::string text = name + "<";
  for (const std::string& argument : arguments)
    text += (&argument == arguments.data() ? "" : ", ") + argument;
  return text + ">";
}

void CutMiddle(size_t to, std::string* text) {
  if (text->size() <= to)
    return;
  const size_t shown = to - kGap.size(), begin = shown - shown / 2;
  text->replace(begin, text->size() - shown, kGap);
}

}  // namespace

std::string KernelLabel(const std::string& name) {
  std::string text = name;
  RemoveAll("(anonymous namespace)::", &text);
  if (text.starts_with("void "))
    text.erase(0, 5);
  for (size_t at; (at = text.find("> >")) != std::string::npos;)
    text.erase(at + 1, 1);
  text = WithoutNamespaces(WithPlainLambdas(std::move(text)));
  const size_t open = text.find('<');
  const size_t end = open == std::string::npos ? open : EndOf(text, open);
  // Names with operators, or that are cut.
  if (end == std::string::npos)
    return Shortened(name);
  std::vector<std::string> arguments =
      Arguments(std::string_view(text).substr(open + 1, end - open - 2));
  if (std::any_of(arguments.begin(), arguments.end(),
                  [](const std::string& one) { return !TellsNothing(one); }))
    std::erase_if(arguments, TellsNothing);
  std::transform(arguments.begin(), arguments.end(), arguments.begin(), Unwrapped);
  const std::string kernel = text.substr(0, open);
  std::vector<std::string> shown = arguments;
  for (int depth = 3; Joined(kernel, shown).size() > kKernelLabelSize && depth >= 0;
       --depth)
    for (size_t i = 0; i < arguments.size(); ++i)
      shown[i] = ToDepth(arguments[i], depth);
  for (size_t size; (size = Joined(kernel, shown).size()) > kKernelLabelSize;) {
    const auto longest = std::max_element(
        shown.begin(), shown.end(),
        [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (longest->size() <= kLeastArgument)
      break;
    const size_t over = size - kKernelLabelSize;
    CutMiddle(
        std::max(kLeastArgument, longest->size() - std::min(over, longest->size())),
        &*longest);
  }
  std::string label = Joined(kernel, shown);
  CutMiddle(kKernelLabelSize, &label);
  return label;
}

}  // namespace vrank::tools
