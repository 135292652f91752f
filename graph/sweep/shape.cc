#include "graph/sweep/shape.h"

#include <algorithm>
#include <utility>

#include "graph/sweep/lanes.h"
#include "graph/sweep/shortcuts.h"

namespace vrank::graph {
namespace {

// What `x` and `y` of an op are where they are no costs.
std::pair<uint32_t, uint32_t> References(const SweepOp& op) {
  if (op.kind == SweepKind::kWork || op.kind == SweepKind::kHostFunc ||
      op.kind == SweepKind::kWeigh)
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

// What ops refer to.
bool SameTables(const SweepCode& a, const SweepCode& b) {
  return a.slots == b.slots &&
         AllSame(a.communicators, b.communicators, SameCommunicator) &&
         AllSame(a.meeting_slots, b.meeting_slots, SamePlace) &&
         AllSame(a.polls, b.polls, SamePoll) &&
         AllSame(a.meetings, b.meetings,
                 [&](const SweepCode::Meeting& one, const SweepCode::Meeting& other) {
                   return SameMeeting(a, one, b, other);
                 });
}

bool IsWork(const SweepOp& op) {
  return op.kind == SweepKind::kWork || op.kind == SweepKind::kRun;
}

// The first op from `at` on that is no work.
const SweepOp* PastWorks(const SweepOp* at) {
  while (IsWork(*at))
    ++at;
  return at;
}

uint64_t Digest(const SweepCode& code, bool works) {
  uint64_t digest = code.slots;
  for (const SweepOp& op : code.ops) {
    if (!works && IsWork(op))
      continue;
    const auto [x, y] = References(op);
    const uint64_t parts[] = {uint64_t{static_cast<uint8_t>(op.kind)} << 32 | op.slot,
                              uint64_t{x} << 32 | y};
    for (const uint64_t part : parts)  // FNV-1a, a word at a time
      digest = (digest ^ part) * 1099511628211u;
  }
  return digest;
}

}  // namespace

bool HaveOneShape(const SweepCode& a, const SweepCode& b) {
  return a.program->size() == b.program->size() && AllSame(a.ops, b.ops, SameOp) &&
         a.places == b.places && a.observations == b.observations && SameTables(a, b);
}

uint64_t ShapeDigest(const SweepCode& code) {
  return Digest(code, true);
}

bool HaveOneSkeleton(const SweepCode& a, const SweepCode& b) {
  const SweepOp *one = a.ops.data(), *other = b.ops.data();
  while (true) {
    one = PastWorks(one);
    other = PastWorks(other);
    if (!SameOp(*one, *other))
      return false;
    if (one->kind == SweepKind::kEnd)
      return SameTables(a, b);
    ++one;
    ++other;
  }
}

uint64_t SkeletonDigest(const SweepCode& code) {
  return Digest(code, false);
}

namespace {

using Works = std::vector<SweepOp>;

// Can be one op of an aligned code.
bool SameWork(const SweepOp& a, const SweepOp& b) {
  return a.slot == b.slot && a.ledger == b.ledger;
}

// In this order, perhaps among others.
bool Contains(const Works& all, const Works& some) {
  size_t found = 0;
  for (size_t at = 0; at < all.size() && found < some.size(); ++at)
    found += SameWork(all[at], some[found]);
  return found == some.size();
}

// The shortest sequence that contains both, or where these are long, one of them.
Works Merged(const Works& a, const Works& b) {
  constexpr size_t kMost = 1 << 16;  // pairs that are looked at
  size_t first = 0, last_a = a.size(), last_b = b.size();
  while (first < last_a && first < last_b && SameWork(a[first], b[first]))
    ++first;
  while (first < last_a && first < last_b && SameWork(a[last_a - 1], b[last_b - 1])) {
    --last_a;
    --last_b;
  }
  const size_t n = last_a - first, m = last_b - first;
  // Of the rests from here on: how many works they can share.
  std::vector<uint16_t> shared(n * m <= kMost ? (n + 1) * (m + 1) : 0);
  const auto at = [&](size_t i, size_t k) -> uint16_t& {
    return shared[i * (m + 1) + k];
  };
  for (size_t i = shared.empty() ? 0 : n; i-- > 0;) {
    for (size_t k = m; k-- > 0;)
      at(i, k) = SameWork(a[first + i], b[first + k])
                     ? static_cast<uint16_t>(at(i + 1, k + 1) + 1)
                     : std::max(at(i + 1, k), at(i, k + 1));
  }
  Works merged(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(first));
  size_t i = 0, k = 0;
  while (i < n || k < m) {
    const bool both = !shared.empty() && i < n && k < m;
    if (both && SameWork(a[first + i], b[first + k])) {
      merged.push_back(a[first + i++]);
      ++k;
    } else if (k == m || (i < n && (!both || at(i + 1, k) >= at(i, k + 1)))) {
      merged.push_back(a[first + i++]);
    } else {
      merged.push_back(b[first + k++]);
    }
  }
  merged.insert(merged.end(), a.begin() + static_cast<std::ptrdiff_t>(last_a), a.end());
  return merged;
}

// The works before the next op that is none. Returns what follows that op.
const SweepOp* NextWorks(const SweepOp* at, Works* works) {
  works->clear();
  for (; IsWork(*at); ++at) {
    if (at->kind == SweepKind::kWork)
      works->push_back(*at);
  }
  return at + 1;
}

}  // namespace

SweepCode AlignedCode(std::span<const SweepCode* const> codes) {
  SweepCode aligned = *codes[0];
  // By op that is no work: the works before it.
  std::vector<Works> works;
  const SweepOp* const end = aligned.ops.data() + aligned.ops.size();
  for (const SweepOp* at = aligned.ops.data(); at != end;)
    at = NextWorks(at, &works.emplace_back());
  Works others;
  for (const SweepCode* const code : codes.subspan(1)) {
    const SweepOp* at = code->ops.data();
    for (Works& all : works) {
      at = NextWorks(at, &others);
      if (!Contains(all, others))
        all = Merged(all, others);
    }
  }
  const size_t ledgers = aligned.ledgers.size() / aligned.ops.size();
  aligned.ops.clear();
  aligned.runs.clear();
  auto next = works.begin();
  for (const SweepOp& op : codes[0]->ops) {
    if (IsWork(op))
      continue;
    aligned.ops.insert(aligned.ops.end(), next->begin(), next->end());
    aligned.ops.push_back(op);
    ++next;
  }
  aligned.ledgers.assign(aligned.ops.size() * ledgers, 0);
  MarkRuns(&aligned);
  return aligned;
}

CostRows OwnCosts(const SweepCode& common, std::span<const SweepCode* const> codes,
                  uint32_t width, uint32_t ledgers) {
  const size_t rows = SweepLanes::kOwnCosts + ledgers;
  CostRows own(common.ops.size() * rows * width);
  std::vector<size_t> next(codes.size());
  for (size_t at = 0; at < common.ops.size(); ++at) {
    const SweepOp& what = common.ops[at];
    if (what.kind == SweepKind::kRun)
      continue;
    uint32_t* const row = own.data() + at * rows * width;
    for (size_t lane = 0; lane < codes.size(); ++lane) {
      const SweepCode& code = *codes[lane];
      next[lane] += code.ops[next[lane]].kind == SweepKind::kRun;
      const SweepOp& op = code.ops[next[lane]];
      if (what.kind == SweepKind::kWork &&
          (op.kind != SweepKind::kWork || !SameWork(op, what))) {
        row[lane] = SweepLanes::kNoWork;
        continue;
      }
      row[lane] = op.issue;
      row[width + lane] = op.x;
      row[2 * width + lane] = op.y;
      for (uint32_t l = 0; l < ledgers; ++l)
        row[(SweepLanes::kOwnCosts + l) * width + lane] =
            code.ledgers[next[lane] * ledgers + l];
      ++next[lane];
    }
  }
  return own;
}

void KeepResultsOnly(SweepCode* code) {
  SweepCode kept;
  kept.program = code->program;
  kept.observations = std::move(code->observations);
  kept.fixed = code->fixed;
  kept.host_ns = code->host_ns;
  kept.busy_ns = code->busy_ns;
  *code = std::move(kept);
}

}  // namespace vrank::graph
