#include "graph/build/program_comparison.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/schema/pair_id.h"

namespace vrank::graph {
namespace {

// Reads a program without the ops that only pass host time.
class Reader {
 public:
  Reader(const Program& program, const ProgramComparison& compare)
      : program_(program),
        answered_queries_(compare.answered_queries),
        measured_host_times_(compare.measured_host_times) {}

  std::optional<Op> Next() {
    int64_t host_ns = 0;
    for (; next_ < program_.size(); ++next_) {
      Op op = program_.op(next_);
      if (op.from_helper != 0)
        continue;
      if (measured_host_times_ || op.host_source != Source::kMeasured)
        host_ns += op.host_ns;
      if (op.kind == OpKind::kHost || op.kind == OpKind::kAskClock ||
          (!answered_queries_ && IsAnswered(op)))
        continue;
      op.host_ns = host_ns;
      at_ = next_++;
      return op;
    }
    at_ = next_;
    left_ns_ = host_ns;
    return std::nullopt;
  }
  static bool IsAnswered(const Op& op) {
    return (op.kind == OpKind::kQueryToken || op.kind == OpKind::kQueryLane) &&
           op.b == kAnswerComplete;
  }
  uint64_t at() const { return at_; }
  int64_t left_ns() const { return left_ns_; }
  const Program& program() const { return program_; }

 private:
  const Program& program_;
  const bool answered_queries_, measured_host_times_;
  uint64_t next_ = 0, at_ = 0;
  int64_t left_ns_ = 0;
};

// Numbers of one kind, as the two programs give them.
class Pairs {
 public:
  // A new meaning of both numbers.
  void Bind(uint32_t a, uint32_t b) {
    Forget(a, b);
    to_b_[a] = b;
    to_a_[b] = a;
  }
  void Forget(uint32_t a, uint32_t b) {
    if (const auto old = to_b_.find(a); old != to_b_.end()) {
      to_a_.erase(old->second);
      to_b_.erase(old);
    }
    if (const auto old = to_a_.find(b); old != to_a_.end()) {
      to_b_.erase(old->second);
      to_a_.erase(old);
    }
  }
  // The same thing; numbers that are new to both become so.
  bool Match(uint32_t a, uint32_t b) {
    const auto of_a = to_b_.find(a);
    const auto of_b = to_a_.find(b);
    if (of_a == to_b_.end() && of_b == to_a_.end()) {
      Bind(a, b);
      return true;
    }
    return of_a != to_b_.end() && of_a->second == b && of_b != to_a_.end();
  }

 private:
  std::map<uint32_t, uint32_t> to_b_, to_a_;
};

// The peer as seen from the seat of the communicator's member. `seats`: nullptr, peers
// are compared as they are.
uint32_t PeerFrom(const Seats* seats, uint32_t communicator, const Transfer& transfer) {
  if (seats == nullptr || (transfer.peer & kAbsolutePeer) != 0)
    return transfer.peer;
  const auto seat = seats->find(communicator);
  if (seat == seats->end() || seat->second.size == 0)
    return transfer.peer;
  const auto [index, size] = seat->second;
  return (transfer.peer % size + size - index % size) % size;
}

class Comparer {
 public:
  Comparer(const Program& a, const Program& b, const ProgramComparison& compare)
      : a_(a, compare), b_(b, compare), compare_(compare) {}

  std::string Run() {
    while (true) {
      const std::optional<Op> a = a_.Next(), b = b_.Next();
      if (!a && !b)
        break;
      if (!a || !b)
        return Differ(a, b);
      if (!Same(*a, *b))
        return Differ(a, b);
    }
    if (compare_.host_times && a_.left_ns() != b_.left_ns())
      return fmt::format("host time after the last op: {} ns in {}, {} ns in {}",
                         a_.left_ns(), compare_.a_name, b_.left_ns(), compare_.b_name);
    return {};
  }

 private:
  std::string Side(const Reader& reader, const std::optional<Op>& op) const {
    return op ? fmt::format("op {}: {}", reader.at(), Describe(reader.program(), *op))
              : fmt::format("the end after {} ops", reader.program().size());
  }
  std::string Differ(const std::optional<Op>& a, const std::optional<Op>& b) const {
    return fmt::format("{} in {}, {} in {}", Side(a_, a), compare_.a_name, Side(b_, b),
                       compare_.b_name);
  }

  bool Same(const Op& a, const Op& b) {
    if (a.kind != b.kind || a.launch != b.launch || a.work != b.work)
      return false;
    if (compare_.host_times && a.host_ns != b.host_ns)
      return false;
    if (compare_.sources && (a.source != b.source || a.host_source != b.host_source))
      return false;
    return SameTarget(a, b);
  }

  bool SameCreation(const Op& a, const Op& b) {
    const Creation& x = a_.program().details().creations[a.b];
    const Creation& y = b_.program().details().creations[b.b];
    Creation renumbered = y;
    renumbered.parent = x.parent;
    if (compare_.a_seats != nullptr) {
      renumbered.color = x.color;
      renumbered.key = x.key;
      renumbered.rank = x.rank;
      renumbered.unique_id = x.unique_id;
    }
    // A slice's says the ends in place of what the program passed.
    if (PairOfId(x.unique_id).has_value() || PairOfId(y.unique_id).has_value())
      renumbered.unique_id = x.unique_id;
    if (!(x == renumbered) || (x.parent == 0) != (y.parent == 0) ||
        (x.parent != 0 && !communicators_.Match(x.parent, y.parent)))
      return false;
    communicators_.Bind(a.a, b.a);
    return true;
  }

  bool SameName(const Op& a, const Op& b) const {
    return a_.program().details().names[a.a] == b_.program().details().names[b.a];
  }

  bool SameTransfers(const Op& a, const Op& b) const {
    const auto& x = a_.program().details().transfer_groups[a.b];
    const auto& y = b_.program().details().transfer_groups[b.b];
    if (x.size() != y.size())
      return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i].bytes != y[i].bytes || x[i].is_send != y[i].is_send ||
          PeerFrom(compare_.a_seats, a.a, x[i]) !=
              PeerFrom(compare_.b_seats, b.a, y[i]))
        return false;
    return true;
  }

  bool SameTarget(const Op& a, const Op& b) {
    const bool times = !compare_.work_times || a.value == b.value;
    switch (a.kind) {
      case OpKind::kWork:
        return times && lanes_.Match(a.lane, b.lane) && SameName(a, b);
      case OpKind::kHostFunc:
        return times && lanes_.Match(a.lane, b.lane);
      case OpKind::kRecordToken:
        tokens_.Bind(a.a, b.a);
        return lanes_.Match(a.lane, b.lane);
      case OpKind::kWaitToken:
        return lanes_.Match(a.lane, b.lane) && tokens_.Match(a.a, b.a);
      case OpKind::kReleaseLane: {
        const bool same = lanes_.Match(a.lane, b.lane);
        lanes_.Forget(a.lane, b.lane);
        return same;
      }
      case OpKind::kHostWaitToken:
        return tokens_.Match(a.a, b.a);
      case OpKind::kQueryToken:
        return a.b == b.b && tokens_.Match(a.a, b.a);
      case OpKind::kPollToken:
        return times && tokens_.Match(a.a, b.a);
      case OpKind::kHostWaitLane:
        return lanes_.Match(a.lane, b.lane);
      case OpKind::kQueryLane:
        return a.b == b.b && lanes_.Match(a.lane, b.lane);
      case OpKind::kPollLane:
        return times && lanes_.Match(a.lane, b.lane);
      case OpKind::kCreateCommunicator:
        return SameCreation(a, b);
      case OpKind::kReleaseCommunicator:
        return a.b == b.b && communicators_.Match(a.a, b.a);
      case OpKind::kCollective:
        return lanes_.Match(a.lane, b.lane) && communicators_.Match(a.a, b.a) &&
               a_.program().details().collectives[a.b] ==
                   b_.program().details().collectives[b.b];
      case OpKind::kTransfers:
        return lanes_.Match(a.lane, b.lane) && communicators_.Match(a.a, b.a) &&
               SameTransfers(a, b);
      case OpKind::kMemory:
        return a.value == b.value && (a.b == b.b || !compare_.memory_owners);
      case OpKind::kRangeBegin:
      case OpKind::kRangeEnd:
        return SameName(a, b);
      default:
        return true;
    }
  }

  Reader a_, b_;
  const ProgramComparison compare_;
  Pairs lanes_, tokens_, communicators_;
};

std::string DescribeCreation(const Creation& call, uint32_t number) {
  if (call.parent != 0)
    return fmt::format("split of communicator {} into {} (colour {}, key {})",
                       call.parent, number, call.color, call.key);
  return fmt::format("init of communicator {} as {} of {}", number, call.rank,
                     call.ranks);
}

}  // namespace

std::string DescribeAction(const Program& program, const Op& op) {
  const Details& details = program.details();
  std::string what;
  switch (op.kind) {
    case OpKind::kWork:
      what =
          fmt::format("{} of {} ns on lane {}", details.names[op.a], op.value, op.lane);
      break;
    case OpKind::kCollective: {
      const CollectiveCall& call = details.collectives[op.b];
      what =
          fmt::format("{} of {} {} on communicator {}, lane {}", Name(call.operation),
                      call.count, Name(call.type), op.a, op.lane);
      break;
    }
    case OpKind::kTransfers:
      what = fmt::format("{} transfers on communicator {}, lane {}",
                         details.transfer_groups[op.b].size(), op.a, op.lane);
      break;
    case OpKind::kCreateCommunicator:
      what = DescribeCreation(details.creations[op.b], op.a);
      break;
    case OpKind::kRangeBegin:
    case OpKind::kRangeEnd:
      what = fmt::format("{} '{}'", Name(op.kind), details.names[op.a]);
      break;
    case OpKind::kMemory:
      what = fmt::format("memory {:+} bytes", op.value);
      break;
    default:
      what = fmt::format("{} (lane {}, {}, {})", Name(op.kind), op.lane, op.a, op.b);
  }
  return what;
}

std::string Describe(const Program& program, const Op& op) {
  return fmt::format("{} after {} ns of host time", DescribeAction(program, op),
                     op.host_ns);
}

ProgramTotals TotalsOf(const Program& program) {
  ProgramTotals totals;
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    if (op.from_helper != 0)
      continue;
    ++totals.ops;
    totals.host_ns += op.host_ns;
    if (op.kind == OpKind::kWork) {
      ++totals.work;
      totals.work_ns += op.value;
    } else if (op.kind == OpKind::kCollective || op.kind == OpKind::kTransfers) {
      ++totals.collectives;
    } else if (op.kind == OpKind::kHostWaitToken || op.kind == OpKind::kHostWaitLane) {
      ++totals.host_waits;
    }
  }
  return totals;
}

std::string DescribeDifference(const ProgramTotals& of, const ProgramTotals& than) {
  std::vector<std::string> parts;
  const auto count = [&](uint64_t more, uint64_t less, const char* what) {
    if (more != less)
      parts.push_back(fmt::format("{:+} {}", static_cast<int64_t>(more - less), what));
  };
  const auto time = [&](int64_t more, int64_t less, const char* what) {
    if (more != less)
      parts.push_back(fmt::format("{:+.1f} us of {}",
                                  static_cast<double>(more - less) / 1000, what));
  };
  count(of.work, than.work, "kernels and copies");
  time(of.work_ns, than.work_ns, "their time");
  count(of.collectives, than.collectives, "collectives and transfers");
  count(of.host_waits, than.host_waits, "waits of the host");
  time(of.host_ns, than.host_ns, "host time");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string FirstDifference(const Program& a, const Program& b,
                            const ProgramComparison& compare) {
  return Comparer(a, b, compare).Run();
}

}  // namespace vrank::graph
