#include "tools/job/run_provenance.h"

#include <filesystem>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guest/crc32c.h"
#include "base/regular_file.h"
#include "emulator/session/session.h"
#include "tools/job/program_fingerprint.h"
#include "tools/machine/installation.h"
#include "tools/machine/version.h"

namespace vrank::tools {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostDescriptionBytes = uint64_t{16} << 20;

// Over the GPUs, clusters and kernel costs that come with vrank: names and contents.
uint32_t DescriptionsChecksum() {
  const auto installation = FindInstallation();
  if (!installation.ok())
    return 0;
  std::set<std::string> files;
  std::error_code error;
  for (const char* kind : {"gpus", "clusters", "kernels"})
    for (fs::directory_iterator entry(fs::path(installation->data_dir) / kind, error),
         end;
         !error && entry != end; entry.increment(error))
      files.insert(entry->path().string());
  uint32_t checksum = 0;
  for (const std::string& file : files) {
    const std::string name = fs::path(file).filename().string();
    checksum = Crc32c(name.data(), name.size(), checksum);
    if (const auto text = ReadRegularFile(file, kMostDescriptionBytes); text.ok())
      checksum = Crc32c(text->data(), text->size(), checksum);
  }
  return checksum;
}

}  // namespace

std::map<std::string, std::string> SoftwareOf(const Run& run) {
  std::map<std::string, std::string> software;
  for (const auto& real : run.session().world().real())
    if (!real->software().empty()) {
      software = real->software();
      break;
    }
  software["vrank"] =
      fmt::format("{}, descriptions {:08x}", Version(), DescriptionsChecksum());
  return software;
}

Provenance ProvenanceOf(const Job& job, const Run& run) {
  Provenance provenance;
  provenance.command = fmt::format("{}", fmt::join(job.command(), " "));
  provenance.program = ProgramFingerprint(job.command()).value_or("");
  provenance.options = CostOptions(job.flags()).value_or("");
  for (const std::string& straggler : job.flags().stragglers)
    provenance.options +=
        fmt::format("{}straggler={}", provenance.options.empty() ? "" : " ", straggler);
  provenance.software = SoftwareOf(run);
  return provenance;
}

}  // namespace vrank::tools
