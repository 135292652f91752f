#include "graph/build/class_differences.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/build/program_comparison.h"

namespace vrank::graph {
namespace {

// Ops of a program that occupy its GPU or its network.
class DeviceReader {
 public:
  explicit DeviceReader(const Program& program) : program_(program) {}

  std::optional<Op> Next() {
    while (next_ < program_.size()) {
      const Op& op = program_.op(next_++);
      const bool counts = op.kind == OpKind::kWork || op.kind == OpKind::kCollective ||
                          op.kind == OpKind::kTransfers ||
                          (op.kind == OpKind::kMemory &&
                           op.b == static_cast<uint32_t>(MemoryOwner::kProgram));
      if (counts)
        return op;
    }
    ++next_;  // the place behind the last op
    return std::nullopt;
  }
  ClassDifference::Side Side(const std::optional<Op>& op) const {
    ClassDifference::Side side;
    side.op = next_ - 1;
    side.what = op.has_value() ? DescribeAction(program_, *op) : "the end";
    for (uint64_t i = 0; i < program_.size(); ++i)
      if (program_.op(i).kind == OpKind::kWork)
        side.work_ns += program_.op(i).value;
    return side;
  }
  const Details& details() const { return program_.details(); }

 private:
  const Program& program_;
  uint64_t next_ = 0;
};

bool Same(const DeviceReader& a, const Op& x, const DeviceReader& b, const Op& y,
          bool times) {
  if (x.kind != y.kind)
    return false;
  switch (x.kind) {
    case OpKind::kWork:
      return (!times || x.value == y.value) &&
             a.details().names[x.a] == b.details().names[y.a];
    case OpKind::kMemory:
      return x.value == y.value;
    case OpKind::kCollective: {
      const CollectiveCall &of_x = a.details().collectives[x.b],
                           &of_y = b.details().collectives[y.b];
      return of_x.operation == of_y.operation && of_x.type == of_y.type &&
             of_x.count == of_y.count;
    }
    default: {
      const auto &of_x = a.details().transfer_groups[x.b],
                 &of_y = b.details().transfer_groups[y.b];
      return std::equal(of_x.begin(), of_x.end(), of_y.begin(), of_y.end(),
                        [](const Transfer& one, const Transfer& other) {
                          return one.bytes == other.bytes &&
                                 one.is_send == other.is_send;
                        });
    }
  }
}

// The first op in which they differ: of `b` as the ranks', of `a` as the reference's.
std::optional<ClassDifference> Compare(const Program& a, const Program& b, bool times) {
  DeviceReader of_a(a), of_b(b);
  while (true) {
    const std::optional<Op> x = of_a.Next(), y = of_b.Next();
    if (!x.has_value() && !y.has_value())
      return std::nullopt;
    if (x.has_value() && y.has_value() && Same(of_a, *x, of_b, *y, times))
      continue;
    ClassDifference difference;
    difference.of_reference = of_a.Side(x);
    difference.of_ranks = of_b.Side(y);
    return difference;
  }
}

}  // namespace

std::vector<ClassDifference> DifferencesWithinClasses(const ExecutionGraph& graph) {
  // Of each class: ranks that do the same; the first set has the reference.
  std::map<uint32_t, std::vector<ClassDifference>> sets;
  const auto program = [&graph](int32_t rank) -> const Program& {
    return *graph.programs[graph.ranks[static_cast<size_t>(rank)].program];
  };
  for (int32_t rank = 0; rank < graph.world_size; ++rank) {
    const ExecutionGraph::Rank& part = graph.ranks[static_cast<size_t>(rank)];
    if (part.leader != rank)
      continue;
    std::vector<ClassDifference>& of_class = sets[part.rank_class];
    const auto alike =
        std::find_if(of_class.begin(), of_class.end(), [&](const ClassDifference& set) {
          return !Compare(program(set.ranks.front()), program(rank), graph.virtual_gpu)
                      .has_value();
        });
    if (alike != of_class.end()) {
      alike->ranks.push_back(rank);
      continue;
    }
    ClassDifference set;
    if (!of_class.empty()) {
      const int32_t reference = of_class.front().ranks.front();
      set = *Compare(program(reference), program(rank), graph.virtual_gpu);
      set.reference = reference;
    }
    set.class_name = graph.classes[part.rank_class].name;
    set.ranks = {rank};
    of_class.push_back(std::move(set));
  }
  std::vector<ClassDifference> differences;
  for (auto& [rank_class, of_class] : sets)
    differences.insert(differences.end(), std::next(of_class.begin()), of_class.end());
  return differences;
}

}  // namespace vrank::graph
