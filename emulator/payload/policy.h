// What a program reads where bytes of virtual ranks would be, and values recorded in a
// run that had those ranks.
//
// A rule names communicators and operations ("world:broadcast=zero", with * for any
// text) and what holds for them; the last rule that fits decides.
//   mirror    a virtual rank holds what its real peers hold (operation.h)
//   zero      it holds zeros: a sum is the real ranks', and zero its part of a gathered
//             result and what it sends
//   exact     nothing is made up: what depends on it counts as computed
//   recorded  what the same member read in the recorded run; where that run has
//             nothing, as mirror
//
// A recorded value is known by its communicator, member, operation, type, count, root
// and how many equal calls came before it on that communicator, so that one added
// collective does not shift all others.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_PAYLOAD_POLICY_H_
#define VRANK_EMULATOR_PAYLOAD_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/schema/op.h"

namespace vrank::emulator {

enum class PayloadPolicy : uint8_t { kMirror, kZero, kExact, kRecorded };

struct PayloadRule {
  std::string communicator;  // as errors name it: "world", "world/0.0", "tp@0"
  std::string operation;     // graph::Name, or "transfer"
  PayloadPolicy policy = PayloadPolicy::kMirror;
};

// "COMMUNICATOR:OPERATION=POLICY".
absl::StatusOr<PayloadRule> ParsePayloadRule(const std::string& text);

class PayloadRules {
 public:
  void Add(PayloadRule rule) { rules_.push_back({std::move(rule), false}); }
  // What the last fitting rule says, else `otherwise`.
  PayloadPolicy Find(const std::string& communicator, const std::string& operation,
                     PayloadPolicy otherwise);
  // Some rule never decided: "'sub:*' ... 'world'", which names a few communicators
  // that it was held against. Empty where all did, or nothing was asked.
  std::string DescribeUnused() const;

 private:
  struct Rule {
    PayloadRule rule;
    bool used;
  };
  std::vector<Rule> rules_;
  std::set<std::string> asked_;  // communicators, a few
};

// Names of values; see above.
std::string NameOfResult(const std::string& communicator, uint32_t member,
                         const graph::CollectiveCall& call, uint32_t calls_before);
std::string NameOfTransfer(const std::string& communicator, uint32_t from, uint32_t to,
                           uint32_t transfers_before);

class RecordedPayloads {
 public:
  // Bytes at `offset` of the value. Later ones win.
  void Add(const std::string& name, uint64_t offset, std::span<const std::byte> bytes);
  // The stretch that starts at `offset`, at most `limit` bytes; empty where there is
  // none.
  std::span<const std::byte> Find(const std::string& name, uint64_t offset,
                                  uint64_t limit) const;
  size_t size() const { return values_.size(); }

  absl::Status Save(const std::string& path) const;
  static absl::StatusOr<RecordedPayloads> Load(const std::string& path);

 private:
  using Pieces = std::map<uint64_t, std::vector<std::byte>>;  // by offset
  std::map<std::string, Pieces> values_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_PAYLOAD_POLICY_H_
