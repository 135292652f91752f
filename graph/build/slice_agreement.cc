#include "graph/build/slice_agreement.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/build/program_comparison.h"

namespace vrank::graph {
namespace {

absl::Status Differ(const RankTrace& a, const RankTrace& b, const std::string& what,
                    const std::string& of_a, const std::string& of_b,
                    const std::string& advice) {
  return absl::InvalidArgumentError(fmt::format(
      "slices '{}' (rank {}) and '{}' (rank {}) differ in {}: {} and {}; {}", a.file,
      a.session.rank, b.file, b.session.rank, what, of_a, of_b, advice));
}

std::string Quoted(const std::string& text) {
  return text.empty() ? "none" : fmt::format("'{}'", text);
}

absl::Status CheckPair(const RankTrace& a, const RankTrace& b) {
  constexpr char kTraceAgain[] = "trace all of them with the same options";
  const TraceSession &x = a.session, &y = b.session;
  if (x.world_size != y.world_size)
    return Differ(a, b, "world size", fmt::format("{}", x.world_size),
                  fmt::format("{}", y.world_size), kTraceAgain);
  if (x.layout != y.layout)
    return Differ(a, b, "layout", Quoted(x.layout), Quoted(y.layout), kTraceAgain);
  if (x.group_hints != y.group_hints)
    return Differ(a, b, "--group", fmt::format("{} hints", x.group_hints.size()),
                  fmt::format("{} hints", y.group_hints.size()), kTraceAgain);
  if (x.virtual_gpu != y.virtual_gpu)
    return Differ(a, b, "kind of GPU", x.virtual_gpu ? "virtual" : "real",
                  y.virtual_gpu ? "virtual" : "real", kTraceAgain);
  if (x.gpu != y.gpu)
    return Differ(a, b, "GPU", Quoted(x.gpu), Quoted(y.gpu), kTraceAgain);
  if (x.cluster != y.cluster)
    return Differ(a, b, "cluster", Quoted(x.cluster), Quoted(y.cluster), kTraceAgain);
  if (x.cost_options != y.cost_options)
    return Differ(a, b, "costs (--host-cost, --kernels, --kernel-times)",
                  Quoted(x.cost_options), Quoted(y.cost_options), kTraceAgain);
  if (x.launch_latency_ns != y.launch_latency_ns)
    return Differ(a, b, "launch latency", fmt::format("{} ns", x.launch_latency_ns),
                  fmt::format("{} ns", y.launch_latency_ns), kTraceAgain);
  if (x.launch_queue_depth != y.launch_queue_depth)
    return Differ(a, b, "launch queue depth", fmt::format("{}", x.launch_queue_depth),
                  fmt::format("{}", y.launch_queue_depth), kTraceAgain);
  if (x.command != y.command)
    return Differ(a, b, "command", Quoted(x.command), Quoted(y.command), kTraceAgain);
  if (x.program_fingerprint != y.program_fingerprint)
    return Differ(a, b, "code version (fingerprint of the program)",
                  Quoted(x.program_fingerprint), Quoted(y.program_fingerprint),
                  "trace all of them with one build of the program");
  return absl::OkStatus();
}

// The communication of a program, one op at a time.
class CommunicationReader {
 public:
  CommunicationReader(const Program& program, uint64_t end)
      : program_(program), end_(std::min(end, program.size())) {}

  std::optional<Op> Next() {
    while (next_ < end_) {
      const Op& op = program_.op(next_++);
      if (op.kind == OpKind::kCreateCommunicator || op.kind == OpKind::kCollective ||
          op.kind == OpKind::kTransfers || op.kind == OpKind::kReleaseCommunicator)
        return op;
    }
    return std::nullopt;
  }
  uint64_t at() const { return next_ - 1; }
  const Program& program() const { return program_; }
  const Details& details() const { return program_.details(); }

 private:
  const Program& program_;
  const uint64_t end_;
  uint64_t next_ = 0;
};

bool SameKindOfCall(const CommunicationReader& a, const Op& x,
                    const CommunicationReader& b, const Op& y) {
  if (x.kind != y.kind)
    return false;
  switch (x.kind) {
    case OpKind::kCreateCommunicator: {
      const Creation &of_x = a.details().creations[x.b],
                     &of_y = b.details().creations[y.b];
      return of_x.ranks == of_y.ranks && (of_x.parent == 0) == (of_y.parent == 0);
    }
    case OpKind::kCollective: {
      const CollectiveCall &of_x = a.details().collectives[x.b],
                           &of_y = b.details().collectives[y.b];
      return of_x.operation == of_y.operation && of_x.type == of_y.type &&
             of_x.count == of_y.count;
    }
    case OpKind::kTransfers: {
      const auto &of_x = a.details().transfer_groups[x.b],
                 &of_y = b.details().transfer_groups[y.b];
      if (of_x.size() != of_y.size())
        return false;
      for (size_t i = 0; i < of_x.size(); ++i)
        if (of_x[i].bytes != of_y[i].bytes || of_x[i].is_send != of_y[i].is_send)
          return false;
      return true;
    }
    default:
      return x.b == y.b;
  }
}

}  // namespace

absl::Status CheckSlicesAgree(std::span<const RankTrace> slices) {
  if (slices.empty())
    return absl::InvalidArgumentError(
        "there are no slices; trace at least one rank with `vrank trace`");
  std::map<int32_t, const RankTrace*> by_rank;
  for (const RankTrace& slice : slices) {
    const TraceSession& session = slice.session;
    if (session.world_size <= 0 || session.rank < 0 ||
        session.rank >= session.world_size)
      return absl::InvalidArgumentError(
          fmt::format("slice '{}': rank {} of {} ranks does not exist; trace it again",
                      slice.file, session.rank, session.world_size));
    RETURN_IF_ERROR(CheckPair(slices.front(), slice));
    const auto [other, is_new] = by_rank.emplace(session.rank, &slice);
    if (!is_new)
      return absl::InvalidArgumentError(
          fmt::format("rank {} was traced twice: '{}' and '{}'; remove one of them",
                      session.rank, other->second->file, slice.file));
  }
  return absl::OkStatus();
}

std::string CommunicationDifference(const Program& a, const Program& b,
                                    uint64_t end_of_a, uint64_t end_of_b) {
  CommunicationReader of_a(a, end_of_a), of_b(b, end_of_b);
  while (true) {
    const std::optional<Op> x = of_a.Next(), y = of_b.Next();
    if (!x && !y)
      return {};
    if (x && y && SameKindOfCall(of_a, *x, of_b, *y))
      continue;
    auto side = [](const CommunicationReader& reader, const std::optional<Op>& op) {
      return op ? fmt::format("op {}: {}", reader.at(), Describe(reader.program(), *op))
                : std::string("the end of its communication");
    };
    return fmt::format("{} on the one side, {} on the other", side(of_a, x),
                       side(of_b, y));
  }
}

}  // namespace vrank::graph
