// What a run could not do as the real job would: one row per kind of loss
// (base/guest/losses.def, docs/limitations.md).
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_JOB_RUN_LOSSES_H_
#define VRANK_TOOLS_JOB_RUN_LOSSES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/job/job.h"

namespace vrank::tools {

struct LossRow {
  std::string name;
  // What it happened to; may be empty. A kernel's name may have a reason behind ": ".
  std::string subject;
  uint64_t count = 0;
  std::string meaning;
};

// LossRow::name of a loss.
const char* NameOf(LossId loss);

// What the real ranks lost, or one of them; what was assumed of the job counts for
// each.
std::vector<LossRow> MakeLosses(const Run& run, std::optional<int32_t> rank);

// A text in which names may be mangled, with these demangled.
std::string DemangleAll(const std::string& text);
// A kernel, and why something was not computed: with the name of another, perhaps.
std::pair<std::string, std::string> SplitReason(const std::string& subject);

// Of all real ranks, or one: protocol::SegmentHeader::gaps_found.
std::vector<uint64_t> GapsFound(const Run& run, std::optional<int32_t> rank);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_RUN_LOSSES_H_
