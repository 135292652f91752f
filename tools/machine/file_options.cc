#include "tools/machine/file_options.h"

#include <string>

#include <CLI/CLI.hpp>

namespace vrank::tools {
namespace {

// CLI11's groups order its own help, which is not used.
constexpr char kReads[] = "reads", kWrites[] = "writes", kFills[] = "fills";

}  // namespace

CLI::Option* Reads(CLI::Option* option) {
  return option->group(kReads);
}
CLI::Option* Writes(CLI::Option* option) {
  return option->group(kWrites);
}
CLI::Option* Fills(CLI::Option* option) {
  return option->group(kFills);
}

NamedFiles FilesOf(const CLI::App& app) {
  NamedFiles files;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& path : option->results()) {
      if (option->get_group() == kReads)
        files.read.push_back({option->get_name(), path});
      if (option->get_group() == kWrites)
        files.written.push_back({option->get_name(), path});
      if (option->get_group() == kFills)
        files.folders.push_back({option->get_name(), path});
    }
  }
  return files;
}

}  // namespace vrank::tools
