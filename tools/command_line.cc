#include "tools/command_line.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tools/say.h"

namespace vrank::tools {
namespace {

constexpr std::pair<std::string_view, const char*> kPages[] = {
#include "tools/cli_pages.inc"
};

// An empty value is nearly always a variable of a script that is not set; taken as it
// is, it would switch a check or an output off. Null: there is none.
const CLI::Option* FindEmptyValue(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty() && option->get_items_expected_max() > 0)
        return option;
  return nullptr;
}

}  // namespace

CommandLine SplitAtDashes(const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  CommandLine line;
  line.flags.assign(arguments.begin(), dashes);
  if (dashes != arguments.end())
    line.program.assign(dashes + 1, arguments.end());
  return line;
}

const char* HelpPage(const std::string& name) {
  for (const auto& [page, text] : kPages)
    if (page == name)
      return text;
  return "";
}

std::optional<int> ParseFlags(const std::string& command, CLI::App* app,
                              const std::vector<std::string>& flags) {
  app->set_help_flag();  // the page is the help
  if (std::find(flags.begin(), flags.end(), "--help") != flags.end() ||
      std::find(flags.begin(), flags.end(), "-h") != flags.end()) {
    fmt::print("{}", HelpPage(command));
    return kExitFine;
  }
  try {
    // CLI11 takes the arguments in reverse.
    std::vector<std::string> reversed(flags.rbegin(), flags.rend());
    app->parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return UsageError(command, error.what());
  }
  if (const CLI::Option* option = FindEmptyValue(*app); option != nullptr)
    return UsageError(
        command, fmt::format("{}: its value is empty; give one or leave it out (is "
                             "a variable of the script not set?)",
                             option->get_name()));
  return std::nullopt;
}

int UsageError(const std::string& command, const std::string& message) {
  Say("vrank {}: {}; `vrank {} --help` lists what there is\n", command, message,
      command);
  return kExitUsage;
}

int JobError(const std::string& command, const absl::Status& status) {
  Say("vrank {}: {}\n", command, std::string(status.message()));
  return kExitFailed;
}

}  // namespace vrank::tools
