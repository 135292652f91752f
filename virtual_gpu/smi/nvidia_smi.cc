// nvidia-smi of an emulated rank: first on the PATH of its processes, since programs
// run it to see their GPUs and stop where it fails.
//
// Options: none, -L, --query-gpu and --query-compute-apps with --format, -i, --version.
// Every other option is refused by name.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>

#include "virtual_gpu/smi/report.h"

namespace {

using vrank::smi::CsvFormat;
using vrank::smi::Gpu;
using vrank::smi::Machine;
using vrank::smi::ProcessUse;

// Exit codes: the table "RETURN VALUE" of nvidia-smi's manual.
constexpr int kInvalidArgument = 2, kNotFound = 6, kNotInitialized = 9;

struct Options {
  bool list = false;
  bool version = false;
  bool help = false;
  std::string gpus;  // -i: indices, UUIDs or bus ids
  std::string query_gpu, query_processes, format;
};

constexpr const char* kUsage =
    "-L, -i, --query-gpu, --query-compute-apps, --format=csv[,noheader][,nounits], "
    "--version";

int Refuse(const std::string& what) {
  std::fprintf(stderr, "nvidia-smi (vrank): %s; options: %s\n", what.c_str(), kUsage);
  return kInvalidArgument;
}

// "--name=value", "--name value", "-n value". Returns whether `argument` is it.
bool TakeValue(std::string_view name, int count, char** words, int* at,
               std::string* value) {
  const std::string_view word = words[*at];
  if (word == name && *at + 1 < count) {
    *value = words[++*at];
    return true;
  }
  if (!word.starts_with(name) || word.substr(name.size(), 1) != "=")
    return false;
  *value = word.substr(name.size() + 1);
  return true;
}

int Parse(int count, char** words, Options* options) {
  for (int at = 1; at < count; ++at) {
    const std::string_view word = words[at];
    if (word == "-L" || word == "--list-gpus")
      options->list = true;
    else if (word == "--version")
      options->version = true;
    else if (word == "-h" || word == "--help")
      options->help = true;
    else if (!TakeValue("-i", count, words, &at, &options->gpus) &&
             !TakeValue("--id", count, words, &at, &options->gpus) &&
             !TakeValue("--query-gpu", count, words, &at, &options->query_gpu) &&
             !TakeValue("--query-compute-apps", count, words, &at,
                        &options->query_processes) &&
             !TakeValue("--format", count, words, &at, &options->format))
      return Refuse("option '" + std::string(word) + "' is not modelled");
  }
  return 0;
}

bool ReadFormat(std::string_view text, CsvFormat* format) {
  bool csv = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, comma - begin);
    if (word == "csv")
      csv = true;
    else if (word == "noheader")
      format->header = false;
    else if (word == "nounits")
      format->units = false;
    else
      return false;
    begin = comma + 1;
  }
  return csv;
}

bool IsNamed(const Gpu& gpu, std::string_view name) {
  return name == std::to_string(gpu.index) || name == gpu.uuid || name == gpu.bus_id;
}

// Keeps the GPUs that -i names. False where one does not exist.
bool Select(const std::string& names, Machine* machine) {
  if (names.empty())
    return true;
  Machine kept = *machine;
  kept.gpus.clear();
  kept.processes.clear();
  for (size_t begin = 0; begin <= names.size();) {
    const size_t comma = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, comma - begin);
    const size_t before = kept.gpus.size();
    for (const Gpu& gpu : machine->gpus)
      if (IsNamed(gpu, name))
        kept.gpus.push_back(gpu);
    if (kept.gpus.size() == before)
      return false;
    begin = comma + 1;
  }
  for (const ProcessUse& use : machine->processes)
    if (std::any_of(kept.gpus.begin(), kept.gpus.end(),
                    [&](const Gpu& gpu) { return gpu.index == use.gpu; }))
      kept.processes.push_back(use);
  *machine = kept;
  return true;
}

std::string Now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[64];
  std::strftime(text, sizeof text, format, &local);
  return text;
}

int Print(const Options& options, const Machine& machine) {
  std::string text;
  CsvFormat format;
  if (options.version) {
    text = "NVIDIA-SMI version  : " + machine.driver_version +
           "\nDRIVER version      : " + machine.driver_version +
           "\nCUDA Version        : " + std::to_string(machine.cuda_version / 1000) +
           "." + std::to_string(machine.cuda_version % 1000 / 10) + "\n";
  } else if (options.list) {
    text = vrank::smi::List(machine);
  } else if (!options.query_gpu.empty() || !options.query_processes.empty()) {
    if (!ReadFormat(options.format, &format))
      return Refuse("a query needs --format=csv[,noheader][,nounits], not '" +
                    options.format + "'");
    const bool known = options.query_gpu.empty()
                           ? vrank::smi::QueryProcesses(
                                 machine, options.query_processes, format, &text)
                           : vrank::smi::QueryGpus(machine, options.query_gpu, format,
                                                   Now("%Y/%m/%d %H:%M:%S.000"), &text);
    if (!known) {
      std::fputs(text.c_str(), stdout);
      return kInvalidArgument;
    }
  } else {
    text = vrank::smi::Table(machine, Now("%a %b %e %H:%M:%S %Y"));
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  if (const int code = Parse(count, words, &options); code != 0)
    return code;
  if (options.help) {
    std::printf("nvidia-smi [OPTION]...: the GPUs of the emulated node. Options: %s\n",
                kUsage);
    return 0;
  }
  Machine machine;
  std::string why;
  if (!vrank::smi::ReadMachine(&machine, &why)) {
    std::puts(why.c_str());
    return kNotInitialized;
  }
  if (!Select(options.gpus, &machine)) {
    std::printf("No devices were found\n");
    return kNotFound;
  }
  return Print(options, machine);
}
