#include "tools/commands/completion_command.h"

#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <absl/strings/str_replace.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/pattern.h"
#include "graph/models/description_file.h"
#include "graph/models/gpu.h"
#include "tools/commands/commands.h"
#include "tools/machine/installation.h"

namespace vrank::tools {
namespace {

struct Flag {
  std::string name;   // with its dashes
  std::string value;  // "FILE"; empty: it takes none
  std::string text;   // the first line of its description
};

// Names that the flag takes beside files, separated by blanks; empty: none.
std::string NamesFor(const Flag& flag) {
  const auto installation = FindInstallation();
  if (!installation.ok())
    return "";
  std::vector<std::string> names;
  if (flag.name == "--cluster")
    names = graph::DescriptionNames(installation->data_dir, "clusters");
  if (flag.name == "--gpu") {
    for (const std::string& name :
         graph::DescriptionNames(installation->data_dir, "gpus")) {
      names.push_back(name);
      if (const auto gpu = graph::LoadGpu(name, installation->data_dir); gpu.ok())
        names.insert(names.end(), gpu->description.alias().begin(),
                     gpu->description.alias().end());
    }
  }
  return fmt::format("{}", fmt::join(names, " "));
}

// As the command's page lists them, so a flag is offered exactly where it is
// documented.
std::vector<Flag> FlagsOf(const Command& command) {
  static const Pattern row =
      *Pattern::Compile(R"( +(?:(-\w), )?(--[a-z-]+)(?: ([A-Z]\S*))? {2,}(.+))");
  std::vector<Flag> flags;
  std::istringstream page(HelpPage(command.name));
  for (std::string line; std::getline(page, line);) {
    Pattern::Groups parts;
    if (!row.Matches(line, 4, &parts))
      continue;
    const Flag flag{std::string(*parts[1]), std::string(parts[2].value_or("")),
                    std::string(*parts[3])};
    if (parts[0])
      flags.push_back({std::string(*parts[0]), flag.value, flag.text});
    flags.push_back(flag);
  }
  return flags;
}

std::string Replaced(std::string text, std::string_view characters,
                     std::string_view before) {
  std::string result;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos)
      result += before;
    result += c;
  }
  return result;
}

std::string CommandNames() {
  std::string names;
  for (const Command& command : Commands())
    names += fmt::format("{}{}", names.empty() ? "" : " ", command.name);
  return names;
}

// A flag that takes a value completes file names, and so does the program after "--".
std::string BashScript() {
  std::string cases;
  std::map<std::string, std::string> named;  // patterns of cases, by flag
  for (const Command& command : Commands()) {
    std::string all, with_value;
    for (const Flag& flag : FlagsOf(command)) {
      all += fmt::format("{}{}", all.empty() ? "" : " ", flag.name);
      if (const std::string names = NamesFor(flag); !names.empty())
        named[flag.name] = names;
      if (!flag.value.empty())
        with_value += fmt::format("{}{}", with_value.empty() ? "" : "|", flag.name);
    }
    cases += fmt::format("    {}) flags='{}' with_value='{}' ;;\n", command.name, all,
                         with_value);
  }
  std::string named_cases;
  for (const auto& [flag, names] : named)
    named_cases += fmt::format(
        "    {}) COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n", flag,
        names);
  return fmt::format(R"(# vrank completion bash
_vrank() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} flags='' with_value='' i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$current"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${{COMP_WORDS[i]}} == -- ]]; then
      declare -F _command_offset >/dev/null && _command_offset $((i + 1))
      return
    fi
  done
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [[ ${{COMP_WORDS[1]}} == completion && $current != -* ]]; then
    COMPREPLY=($(compgen -W 'bash zsh fish' -- "$current"))
    return
  fi
  case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{}  esac
  [[ -n $with_value && ${{COMP_WORDS[COMP_CWORD - 1]}} =~ ^($with_value)$ ]] && return
  [[ $current == -* ]] && COMPREPLY=($(compgen -W "$flags --" -- "$current"))
}}
complete -o default -o bashdefault -F _vrank vrank
)",
                     CommandNames(), cases, named_cases);
}

std::string ZshScript() {
  std::string names, cases;
  for (const Command& command : Commands()) {
    names += fmt::format("    '{}:{}'\n", command.name,
                         Replaced(command.summary, "'", "'\\'"));
    cases += fmt::format("    {})\n      _arguments -S", command.name);
    for (const Flag& flag : FlagsOf(command)) {
      // A quote ends the shell's string; brackets and colons end a part of the row.
      std::string text = Replaced(flag.text, "[]:\\", "\\");
      text = absl::StrReplaceAll(text, {{"'", "'\\''"}});
      const std::string names = NamesFor(flag);
      const std::string action =
          names.empty() ? "_files" : fmt::format("{{compadd -- {}; _files}}", names);
      cases += fmt::format(
          " \\\n        '*{}[{}]{}'", flag.name, text,
          flag.value.empty()
              ? ""
              : fmt::format(":{}:{}", Replaced(flag.value, ":", "\\"), action));
    }
    cases += " \\\n        '*::program:_normal'\n      ;;\n";
  }
  return fmt::format(R"(#compdef vrank
# vrank completion zsh
_vrank() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=${{words[2]}}
  shift words
  ((CURRENT--))
  case $command in
{}  esac
}}
if [[ $funcstack[1] == _vrank ]]; then
  _vrank "$@"
else
  compdef _vrank vrank
fi
)",
                     names, cases);
}

std::string FishScript() {
  const auto quoted = [](const std::string& text) {
    return Replaced(text, "'\\", "\\");
  };
  std::string script = "# vrank completion fish\n";
  for (const Command& command : Commands())
    script +=
        fmt::format("complete -c vrank -n __fish_use_subcommand -f -a {} -d '{}'\n",
                    command.name, quoted(command.summary));
  for (const Command& command : Commands())
    for (const Flag& flag : FlagsOf(command))
      script += fmt::format(
          "complete -c vrank -n '__fish_seen_subcommand_from {}' {} {}{} -d '{}'\n",
          command.name, flag.name[1] == '-' ? "-l" : "-s",
          flag.name.substr(flag.name[1] == '-' ? 2 : 1),
          flag.value.empty()       ? ""
          : NamesFor(flag).empty() ? " -r"
                                   : fmt::format(" -r -a '{}'", NamesFor(flag)),
          quoted(flag.text));
  return script;
}

}  // namespace

int RunCompletionCommand(const CommandLine& line) {
  CLI::App app;
  std::string shell;
  app.add_option("shell", shell)
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  if (const auto exit = ParseFlags("completion", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("completion", "no program is run; leave out what follows --");
  fmt::print("{}", shell == "bash"  ? BashScript()
                   : shell == "zsh" ? ZshScript()
                                    : FishScript());
  return kExitFine;
}

}  // namespace vrank::tools
