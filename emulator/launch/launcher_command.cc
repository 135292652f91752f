#include "emulator/launch/launcher_command.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace vrank::emulator {
namespace {

using Words = std::vector<std::string_view>;

// Of the options, all without leading dashes, and with '-' for '_'.
struct Launcher {
  std::string_view name{};
  Words programs{};  // base names of the file that runs
  Words modules{};   // behind `python -m`
  std::string_view subcommand{};
  Words ranks{};     // options that state how many ranks a machine gets
  Words machines{};  // ... and how many machines there are
  Words switches{};  // options that take no value
  Words pairs{};     // options that take two values
  bool one_unless_stated = false;
  bool contexts = false;  // ':' separates programs, each with a number of its own
};

// Options as in torch/distributed/run.py, accelerate/commands/launch.py,
// deepspeed/launcher/runner.py, mpirun(1) of Open MPI and MPICH, and srun(1). One that
// is not listed counts as an option with one value.
const std::vector<Launcher>& Launchers() {
  static const Words accelerate_switches = {
      "m",        "module",          "no-python", "multi-gpu", "cpu",   "use-deepspeed",
      "use-fsdp", "use-megatron-lm", "q",         "quiet",     "debug", "same-network"};
  static const std::vector<Launcher> launchers = {
      {.name = "torchrun",
       .programs = {"torchrun"},
       .modules = {"torch.distributed.run", "torch.distributed.launch"},
       .ranks = {"nproc-per-node"},
       .machines = {"nnodes"},
       .switches = {"standalone", "m", "module", "no-python", "run-path", "use-env",
                    "virtual-local-rank"},
       .one_unless_stated = true},
      {.name = "accelerate launch",
       .programs = {"accelerate"},
       .modules = {"accelerate.commands.accelerate_cli"},
       .subcommand = "launch",
       .ranks = {"num-processes"},
       .machines = {"num-machines"},
       .switches = accelerate_switches},
      {.name = "accelerate launch",
       .programs = {"accelerate-launch"},
       .modules = {"accelerate.commands.launch"},
       .ranks = {"num-processes"},
       .machines = {"num-machines"},
       .switches = accelerate_switches},
      {.name = "deepspeed",
       .programs = {"deepspeed", "deepspeed.pt"},
       .modules = {"deepspeed.launcher.runner"},
       .ranks = {"num-gpus"},
       .machines = {"num-nodes"},
       .switches = {"module", "no-python", "no-local-rank", "no-ssh", "no-ssh-check",
                    "force-multi", "save-pid", "bind-cores-to-rank"}},
      {.name = "mpirun",
       .programs = {"mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra",
                    "mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich",
                    "mpiexec.mpich"},
       .ranks = {"n", "np", "c"},
       .switches = {"allow-run-as-root", "oversubscribe", "nooversubscribe",
                    "report-bindings", "tag-output", "display-map", "q", "v", "quiet",
                    "verbose", "l", "use-hwthread-cpus", "display-allocation"},
       .pairs = {"mca", "gmca", "pmca", "prtemca", "genv", "env"},
       .contexts = true},
      {.name = "srun",
       .programs = {"srun"},
       .ranks = {"n", "ntasks"},
       .switches = {"l",
                    "label",
                    "u",
                    "unbuffered",
                    "K",
                    "kill-on-bad-exit",
                    "v",
                    "verbose",
                    "Q",
                    "quiet",
                    "exclusive",
                    "overlap",
                    "O",
                    "overcommit",
                    "pty",
                    "s",
                    "oversubscribe",
                    "E",
                    "preserve-env",
                    "X",
                    "disable-status"}},
  };
  return launchers;
}

bool Has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::optional<int32_t> Positive(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0
             ? std::optional(value)
             : std::nullopt;
}

// "--nproc_per_node=4" as {"nproc-per-node", "4"}; "-n4" as {"n", "4"}.
struct Option {
  std::string name;
  std::optional<std::string_view> value;
};
std::optional<Option> ParseOption(std::string_view word) {
  if (word.size() < 2 || word[0] != '-')
    return std::nullopt;
  const bool is_long = word[1] == '-';
  word.remove_prefix(is_long ? 2 : 1);
  Option option;
  size_t length = word.find('=');
  if (length != std::string_view::npos) {
    option.value = word.substr(length + 1);
  } else if (!is_long && word.size() > 1 && word.find_first_of("0123456789") == 1) {
    length = 1;
    option.value = word.substr(1);
  }
  option.name = word.substr(0, length);
  std::replace(option.name.begin(), option.name.end(), '_', '-');
  return option;
}

// The first value of one of the options `names` among the launcher's own, which end
// where the program's name stands.
std::optional<std::string_view> StatedValue(const Launcher& launcher,
                                            const Words& arguments,
                                            const Words& names) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto option = ParseOption(arguments[i]);
    if (!option.has_value())
      return std::nullopt;
    const bool is_switch = Has(launcher.switches, option->name);
    const auto value =
        option->value.has_value() || is_switch || i + 1 == arguments.size()
            ? option->value
            : std::optional(arguments[i + 1]);
    if (Has(names, option->name))
      return value;
    if (!option->value.has_value() && !is_switch)
      i += Has(launcher.pairs, option->name) ? 2 : 1;
  }
  return std::nullopt;
}

std::optional<int32_t> RanksOfOneProgram(const Launcher& launcher,
                                         const Words& arguments) {
  const auto machines = StatedValue(launcher, arguments, launcher.machines);
  // "1:4" of torchrun starts with one.
  if (machines.has_value() && Positive(machines->substr(0, machines->find(':'))) != 1)
    return std::nullopt;
  const auto ranks = StatedValue(launcher, arguments, launcher.ranks);
  if (!ranks.has_value())
    return launcher.one_unless_stated ? std::optional(1) : std::nullopt;
  return Positive(*ranks);
}

std::optional<int32_t> RanksOf(const Launcher& launcher, const Words& arguments) {
  int32_t all = 0;
  auto begin = arguments.begin();
  while (true) {
    const auto end =
        launcher.contexts ? std::find(begin, arguments.end(), ":") : arguments.end();
    const auto ranks = RanksOfOneProgram(launcher, Words(begin, end));
    if (!ranks.has_value())
      return std::nullopt;
    all += *ranks;
    if (end == arguments.end())
      return all;
    begin = end + 1;
  }
}

// The command without `env NAME=VALUE...` before it.
Words WithoutEnv(const std::vector<std::string>& command) {
  Words words(command.begin(), command.end());
  if (words.empty() || BaseName(words[0]) != "env")
    return words;
  const auto program = std::find_if(
      words.begin() + 1, words.end(),
      [](std::string_view word) { return word.find('=') == std::string_view::npos; });
  return Words(program, words.end());
}

}  // namespace

std::optional<LauncherCommand> RecognizeLauncher(
    const std::vector<std::string>& command) {
  const Words words = WithoutEnv(command);
  if (words.empty())
    return std::nullopt;
  // Of an interpreter, the script or the module that it runs; its own options take no
  // value (-u, -X does, but nobody starts a launcher with it).
  size_t at = 0;
  bool is_module = false;
  if (BaseName(words[0]).starts_with("python")) {
    for (at = 1; at < words.size() && words[at].starts_with('-') && !is_module; ++at)
      is_module = words[at] == "-m";
    if (at == words.size())
      return std::nullopt;
  }
  for (const Launcher& launcher : Launchers()) {
    if (is_module ? !Has(launcher.modules, words[at])
                  : !Has(launcher.programs, BaseName(words[at])))
      continue;
    size_t first = at + 1;
    if (!launcher.subcommand.empty() &&
        (first == words.size() || words[first++] != launcher.subcommand))
      continue;
    LauncherCommand found;
    found.name =
        is_module || !launcher.subcommand.empty() ? launcher.name : BaseName(words[at]);
    found.ranks = RanksOf(launcher, Words(words.begin() + first, words.end()));
    return found;
  }
  return std::nullopt;
}

std::string LauncherName(const std::vector<std::string>& command) {
  const auto launcher = RecognizeLauncher(command);
  return launcher.has_value() ? launcher->name : std::string(BaseName(command[0]));
}

}  // namespace vrank::emulator
