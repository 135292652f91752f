// What came of the links that the operations of a replay share, in words and as JSON.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_CONTENTION_REPORT_H_
#define VRANK_TOOLS_REPORT_CONTENTION_REPORT_H_

#include <string>

#include <nlohmann/json.hpp>

#include "tools/replay/shared_links.h"

namespace vrank::tools {

// After the replay.
nlohmann::ordered_json ContentionJson(const SharedLinks& shared);
std::string ContentionText(const SharedLinks& shared);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_CONTENTION_REPORT_H_
