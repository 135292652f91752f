#include "graph/sweep/shape.h"

#include <algorithm>
#include <utility>

#include "graph/sweep/lanes.h"

namespace vrank::graph {
namespace {

// What `x` and `y` of an op are where they are no costs.
std::pair<uint32_t, uint32_t> References(const SweepOp& op) {
  if (op.kind == SweepKind::kWork || op.kind == SweepKind::kHostFunc)
    return {0, 0};
  return {op.x, op.y};
}

bool SameOp(const SweepOp& a, const SweepOp& b) {
  return a.kind == b.kind && a.ledger == b.ledger && a.slot == b.slot &&
         References(a) == References(b);
}

bool SameTransfers(const std::vector<Transfer>& a, const std::vector<Transfer>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Transfer& one, const Transfer& other) {
                      return one.bytes == other.bytes && one.peer == other.peer &&
                             one.is_send == other.is_send;
                    });
}

bool SameMeeting(const SweepCode& a, const SweepCode::Meeting& one, const SweepCode& b,
                 const SweepCode::Meeting& other) {
  if (one.kind != other.kind || one.communicator != other.communicator)
    return false;
  const Details& details = a.program->details();
  const Details& others = b.program->details();
  switch (one.kind) {
    case OpKind::kCollective:
      return details.collectives[one.details] == others.collectives[other.details];
    case OpKind::kTransfers:
      return SameTransfers(details.transfer_groups[one.details],
                           others.transfer_groups[other.details]);
    default:
      return details.creations[one.details].parent ==
             others.creations[other.details].parent;
  }
}

bool SameCommunicator(const SweepCode::Communicator& a,
                      const SweepCode::Communicator& b) {
  return a.number == b.number && a.slot == b.slot &&
         a.transfer_slot == b.transfer_slot && a.transfer_slots == b.transfer_slots;
}

bool SamePlace(const SweepMeeting& a, const SweepMeeting& b) {
  return a.communicator == b.communicator && a.slot == b.slot &&
         a.after_previous == b.after_previous;
}

bool SamePoll(const SweepCode::Poll& a, const SweepCode::Poll& b) {
  return a.cycle == b.cycle && a.source == b.source;
}

template <typename T, typename Same>
bool AllSame(const std::vector<T>& a, const std::vector<T>& b, Same same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

bool HaveOneShape(const SweepCode& a, const SweepCode& b) {
  return a.slots == b.slots && a.program->size() == b.program->size() &&
         AllSame(a.ops, b.ops, SameOp) &&
         AllSame(a.communicators, b.communicators, SameCommunicator) &&
         AllSame(a.meeting_slots, b.meeting_slots, SamePlace) &&
         AllSame(a.polls, b.polls, SamePoll) && a.places == b.places &&
         a.observations == b.observations &&
         AllSame(a.meetings, b.meetings,
                 [&](const SweepCode::Meeting& one, const SweepCode::Meeting& other) {
                   return SameMeeting(a, one, b, other);
                 });
}

uint64_t ShapeDigest(const SweepCode& code) {
  uint64_t digest = code.slots;
  for (const SweepOp& op : code.ops) {
    const auto [x, y] = References(op);
    const uint64_t parts[] = {uint64_t{static_cast<uint8_t>(op.kind)} << 32 | op.slot,
                              uint64_t{x} << 32 | y};
    for (const uint64_t part : parts)  // FNV-1a, a word at a time
      digest = (digest ^ part) * 1099511628211u;
  }
  return digest;
}

std::vector<uint32_t> OwnCosts(std::span<const SweepCode* const> codes, uint32_t width,
                               uint32_t ledgers) {
  const size_t rows = SweepLanes::kOwnCosts + ledgers;
  const size_t ops = codes[0]->ops.size();
  std::vector<uint32_t> own(ops * rows * width);
  for (size_t at = 0; at < ops; ++at) {
    uint32_t* const row = own.data() + at * rows * width;
    for (size_t lane = 0; lane < codes.size(); ++lane) {
      const SweepOp& op = codes[lane]->ops[at];
      row[lane] = op.issue;
      row[width + lane] = op.x;
      row[2 * width + lane] = op.y;
      for (uint32_t l = 0; l < ledgers; ++l)
        row[(SweepLanes::kOwnCosts + l) * width + lane] =
            codes[lane]->ledgers[at * ledgers + l];
    }
  }
  return own;
}

void KeepResultsOnly(SweepCode* code) {
  SweepCode kept;
  kept.program = code->program;
  kept.fixed = code->fixed;
  kept.host_ns = code->host_ns;
  kept.busy_ns = code->busy_ns;
  *code = std::move(kept);
}

}  // namespace vrank::graph
