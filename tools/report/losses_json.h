// Losses as every report in JSON has them (docs/json.md).
//
// Thread rule: pure function.

#ifndef VRANK_TOOLS_REPORT_LOSSES_JSON_H_
#define VRANK_TOOLS_REPORT_LOSSES_JSON_H_

#include <nlohmann/json.hpp>

namespace vrank::tools {

// Of a graph (graph::ExecutionGraph::Loss) or of a run (LossRow).
template <class Losses>
nlohmann::ordered_json LossesJson(const Losses& losses) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& loss : losses)
    rows.push_back(nlohmann::ordered_json{{"name", loss.name},
                                          {"subject", loss.subject},
                                          {"count", loss.count},
                                          {"meaning", loss.meaning}});
  return rows;
}

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_LOSSES_JSON_H_
