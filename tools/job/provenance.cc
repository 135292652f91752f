#include "tools/job/provenance.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vrank::tools {
namespace {

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

std::vector<ProvenanceDifference> FindDifferences(const Provenance& base,
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
