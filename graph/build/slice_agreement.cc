#include "graph/build/slice_agreement.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/build/program_comparison.h"

namespace vrank::graph {
namespace {

std::string Quoted(const std::string& text) {
  return text.empty() ? "none" : fmt::format("'{}'", text);
}

absl::Status CheckPair(const RankTrace& a, const RankTrace& b) {
  const std::optional<SessionDifference> difference =
      FindDifference(a.session, b.session);
  if (!difference.has_value())
    return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "slices '{}' (rank {}) and '{}' (rank {}) differ in {}: {} and {}; {}", a.file,
      a.session.rank, b.file, b.session.rank, difference->what, difference->of_a,
      difference->of_b, difference->advice));
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

std::optional<SessionDifference> FindDifference(const TraceSession& a,
                                                const TraceSession& b) {
  constexpr char kTraceAgain[] = "trace all of them with the same options";
  const auto numbers = [&](const std::string& what, auto of_a, auto of_b,
                           const char* unit = "") {
    return SessionDifference{what, fmt::format("{}{}", of_a, unit),
                             fmt::format("{}{}", of_b, unit), kTraceAgain};
  };
  const auto texts = [&](const std::string& what, const std::string& of_a,
                         const std::string& of_b) {
    return SessionDifference{what, Quoted(of_a), Quoted(of_b), kTraceAgain};
  };
  if (a.world_size != b.world_size)
    return numbers("world size", a.world_size, b.world_size);
  if (a.layout != b.layout)
    return texts("layout", a.layout, b.layout);
  for (size_t i = 0; i < std::max(a.group_hints.size(), b.group_hints.size()); ++i) {
    const std::string of_a = i < a.group_hints.size() ? a.group_hints[i] : "",
                      of_b = i < b.group_hints.size() ? b.group_hints[i] : "";
    if (of_a != of_b)
      return texts(fmt::format("what communicators group (--group, or learned), "
                               "number {}",
                               i + 1),
                   of_a, of_b);
  }
  if (a.virtual_gpu != b.virtual_gpu)
    return numbers("kind of GPU", a.virtual_gpu ? "virtual" : "real",
                   b.virtual_gpu ? "virtual" : "real");
  if (a.gpu != b.gpu)
    return texts("GPU", a.gpu, b.gpu);
  if (a.cluster != b.cluster)
    return texts("cluster", a.cluster, b.cluster);
  if (a.cost_options != b.cost_options)
    return texts("costs (--host-cost, --kernels, --kernel-times) or other options",
                 a.cost_options, b.cost_options);
  if (a.launch_latency_ns != b.launch_latency_ns)
    return numbers("launch latency", a.launch_latency_ns, b.launch_latency_ns, " ns");
  if (a.launch_queue_depth != b.launch_queue_depth)
    return numbers("launch queue depth", a.launch_queue_depth, b.launch_queue_depth);
  if (a.command != b.command)
    return texts("command", a.command, b.command);
  if (a.program_fingerprint != b.program_fingerprint)
    return SessionDifference{"code version (fingerprint of the program)",
                             Quoted(a.program_fingerprint),
                             Quoted(b.program_fingerprint),
                             "trace all of them with one build of the program"};
  return std::nullopt;
}

absl::Status CheckSlicesAgree(std::span<const RankTrace> slices) {
  if (slices.empty())
    return absl::InvalidArgumentError(
        "there are no slices; trace at least one rank with `vrank trace`");
  std::map<int32_t, const RankTrace*> by_rank;
  for (const RankTrace& slice : slices) {
    const TraceSession& session = slice.session;
    if (session.world_size == 0)
      return absl::InvalidArgumentError(
          fmt::format("slice '{}': it does not say which rank it is of: `vrank trace` "
                      "has not finished it; trace the rank again",
                      slice.file));
    if (session.world_size < 0 || session.rank < 0 ||
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
