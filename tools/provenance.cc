#include "tools/provenance.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guest/crc32c.h"
#include "base/regular_file.h"
#include "emulator/session/session.h"
#include "tools/commands.h"
#include "tools/installation.h"
#include "tools/program_fingerprint.h"

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

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin)
      words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// The words between what both texts begin and end with. A value keeps its flag.
std::pair<std::string, std::string> DifferentWords(const std::string& base,
                                                   const std::string& updated) {
  const std::vector<std::string> a = Words(base), b = Words(updated);
  const size_t shorter = std::min(a.size(), b.size());
  size_t begin = 0, behind = 0;
  while (begin < shorter && a[begin] == b[begin])
    ++begin;
  while (behind < shorter - begin &&
         a[a.size() - 1 - behind] == b[b.size() - 1 - behind])
    ++behind;
  if (begin > 0 && a[begin - 1].starts_with("-"))
    --begin;
  const auto part = [&](const std::vector<std::string>& words) {
    return fmt::format("{}",
                       fmt::join(words.begin() + static_cast<ptrdiff_t>(begin),
                                 words.end() - static_cast<ptrdiff_t>(behind), " "));
  };
  return {part(a), part(b)};
}

}  // namespace

uint64_t CommunicationBytes(const graph::ExecutionGraph& graph) {
  uint64_t bytes = 0;
  for (const auto& program : graph.programs) {
    const graph::Details& details = program->details();
    for (uint64_t i = 0; i < program->size(); ++i) {
      const graph::Op& op = program->op(i);
      if (op.kind == graph::OpKind::kCollective) {
        const graph::CollectiveCall& call = details.collectives[op.b];
        bytes += call.count * graph::ElementBytes(call.type);
      } else if (op.kind == graph::OpKind::kTransfers) {
        for (const graph::Transfer& transfer : details.transfer_groups[op.b])
          bytes += transfer.is_send ? transfer.bytes : 0;
      }
    }
  }
  return bytes;
}

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

Provenance ProvenanceOf(const graph::ExecutionGraph& graph) {
  return {graph.command, graph.program_fingerprint, graph.cost_options, graph.software};
}

nlohmann::ordered_json ProvenanceJson(const Provenance& provenance) {
  nlohmann::ordered_json software = nlohmann::ordered_json::object();
  for (const auto& [name, version] : provenance.software)
    software[name] = version;
  return nlohmann::ordered_json{{"command", provenance.command},
                                {"program", provenance.program},
                                {"options", provenance.options},
                                {"software", software}};
}

std::vector<ProvenanceDifference> Differences(const Provenance& base,
                                              const Provenance& updated) {
  std::vector<ProvenanceDifference> differences;
  const auto add = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b) {
      auto [of_base, of_updated] = DifferentWords(a, b);
      differences.push_back({what, std::move(of_base), std::move(of_updated)});
    }
  };
  add("command", base.command, updated.command);
  add("program", base.program, updated.program);
  add("options", base.options, updated.options);
  std::set<std::string> names;
  for (const auto* software : {&base.software, &updated.software})
    for (const auto& [name, version] : *software)
      names.insert(name);
  for (const std::string& name : names) {
    const auto version = [&](const Provenance& of) {
      const auto found = of.software.find(name);
      return found == of.software.end() ? std::string() : found->second;
    };
    if (version(base) != version(updated))
      differences.push_back({name, version(base), version(updated)});
  }
  return differences;
}

}  // namespace vrank::tools
