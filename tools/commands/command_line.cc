#include "tools/commands/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <absl/strings/match.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/interruption.h"
#include "tools/machine/file_options.h"
#include "tools/machine/output_file.h"
#include "tools/terminal/say.h"

namespace vrank::tools {
namespace {

constexpr std::pair<std::string_view, const char*> kPages[] = {
#include "tools/commands/cli_pages.inc"
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

bool IsAboutAFlag(const absl::Status& status) {
  return (absl::IsInvalidArgument(status) || absl::IsOutOfRange(status)) &&
         absl::StartsWith(status.message(), "-");
}

// 0, or why stdout does not take it. Not by stdio, which would keep what it could not
// write and try again at the end.
int WriteToStdout(std::string_view text) {
  if (fflush(stdout) != 0)
    return errno;
  while (!text.empty()) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data(), text.size());
    if (wrote < 0 && errno == EINTR)
      continue;
    const int error = errno;
    if (wrote < 0 && error == EPIPE)
      EndByBrokenPipe();
    if (wrote < 0)
      return error;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return 0;
}

// Letters to add, remove or change to make one of the other (Levenshtein's distance).
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// The flag of the command that may be meant; empty: none is like it.
std::string FlagLike(const CLI::App& app, const std::string& unknown) {
  constexpr size_t kTypingErrors = 2;
  // As other commands and launchers call it.
  constexpr std::string_view kNumberOfRanks[] = {
      "--ranks", "--num-ranks", "--nproc-per-node", "--nproc_per_node", "-n", "-np"};
  std::string like;
  size_t least = kTypingErrors + 1;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const bool is_other_name =
        name == "--world-size" &&
        std::find(std::begin(kNumberOfRanks), std::end(kNumberOfRanks), unknown) !=
            std::end(kNumberOfRanks);
    const size_t distance = is_other_name ? 0 : Distance(unknown, name);
    if (distance < least) {
      least = distance;
      like = name;
    }
  }
  return like;
}

std::string WhatIsUnexpected(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  const auto flag = std::find_if(extras.begin(), extras.end(), [](const auto& extra) {
    return extra.starts_with('-');
  });
  const std::string like =
      flag == extras.end() ? "" : FlagLike(app, flag->substr(0, flag->find('=')));
  return fmt::format("not expected: {}{}", fmt::join(extras, " "),
                     like.empty() ? "" : fmt::format(" (is {} meant?)", like));
}

std::string AreComplete(const std::vector<std::string>& files) {
  return files.empty() ? ""
                       : fmt::format("; {} {} complete", fmt::join(files, " and "),
                                     files.size() == 1 ? "is" : "are");
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
  } catch (const CLI::ExtrasError&) {
    return UsageError(command, WhatIsUnexpected(*app));
  } catch (const CLI::ParseError& error) {
    return UsageError(command, error.what());
  }
  if (const CLI::Option* option = FindEmptyValue(*app); option != nullptr)
    return UsageError(
        command, fmt::format("{}: its value is empty; give one or leave it out (is "
                             "a variable of the script not set?)",
                             option->get_name()));
  if (const absl::Status files = CheckNamedFiles(FilesOf(*app)); !files.ok())
    return JobError(command, files);
  return std::nullopt;
}

int UsageError(const std::string& command, const std::string& message) {
  Say("vrank {}: {}; `vrank {} --help` lists what there is\n", command, message,
      command);
  return kExitUsage;
}

int JobError(const std::string& command, const absl::Status& status) {
  if (IsAboutAFlag(status))
    return UsageError(command, std::string(status.message()));
  Say("vrank {}: {}{}\n", command, std::string(status.message()),
      Interruption() == 0 ? "" : "; " + WhatStays());
  return kExitFailed;
}

int PrintSummary(const std::string& command, const std::string& text, bool json,
                 const std::string& file) {
  if (json)
    return PrintResult(command, text, {file});
  if (const int error = WriteToStdout(text); error != 0)
    Say("vrank {}: stdout: {}; the summary is lost{}\n", command,
        std::generic_category().message(error), AreComplete({file}));
  return kExitFine;
}

int PrintResult(const std::string& command, const std::string& text,
                const std::vector<std::string>& files) {
  const int error = WriteToStdout(text);
  if (error == 0)
    return kExitFine;
  Say("vrank {}: stdout: {}; the result is lost{}\n", command,
      std::generic_category().message(error), AreComplete(files));
  return kExitFailed;
}

}  // namespace vrank::tools
