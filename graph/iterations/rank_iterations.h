// The iterations of one rank's program, by what the program annotates or, without that,
// by what it does; and how long an iteration is.
//
// An iteration is a stretch of the host's work: it begins once the host has passed one
// op and ends once it has passed another. Its *length* counts the device, too:
//
//   length = max(host at the end, completion of the device work issued until then)
//          - max(host at the beginning, completion of the device work issued until
//          then)
//
// Where the program waits for its GPU in every iteration, that is the range of the
// host. Where the host runs ahead, it is the time from one completion to the next.
// Where nothing stands between two iterations that are found, the host time between
// them counts to the later one, so that lengths of adjacent iterations add up to the
// time of all of them.
//
// Thread rule: plain values; one thread builds them.

#ifndef VRANK_GRAPH_ITERATIONS_RANK_ITERATIONS_H_
#define VRANK_GRAPH_ITERATIONS_RANK_ITERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/varint_sequence.h"
#include "graph/iterations/collective_rhythm.h"
#include "graph/iterations/iteration_finder.h"
#include "graph/schema/op.h"

namespace vrank::graph {

// By index in the program: an iteration begins once the host has passed the op before
// `first_op` (0: with the program), and ends once it has passed `last_op`.
struct IterationBounds {
  uint64_t first_op = 0, last_op = 0;
  friend bool operator==(const IterationBounds&, const IterationBounds&) = default;
};

struct RankIterations {
  std::vector<IterationBounds> bounds;  // ascending, disjoint
  IterationEvidence evidence = IterationEvidence::kAnnotation;
  double regularity = 1;  // FoundIterations
};

// What is looked at where the program annotates nothing.
enum class IterationSearch {
  kAnnotations,    // nothing
  kActions,        // all that it does
  kCommunication,  // kernels are not observed: steps, else collectives and transfers
};

// Reads a program op by op, in order.
class IterationScan {
 public:
  // `matches`: whether the name of a range is that of an iteration. Of nested ranges
  // the outermost counts.
  explicit IterationScan(std::function<bool(const std::string&)> matches)
      : matches_(std::move(matches)) {}

  // What an op may be to iterations.
  enum class Role {
    kNone,
    kAction,  // one may begin before it or end with it
    kBound,   // the range of one begins or ends
  };
  // `index`: of the op in its program. Once the range of an iteration has begun,
  // actions are none any more, and those before are forgotten.
  Role Add(uint64_t index, const Op& op, const Details& details);
  // The range of an iteration has begun.
  bool annotated() const { return !annotated_.empty(); }
  // What it holds for what the program does.
  size_t bytes() const { return actions_.bytes() + calls_.bytes(); }

  // Of ranges that are complete; where no range was begun, as the search says.
  RankIterations Find(IterationSearch search) const;

 private:
  Role AddRange(uint64_t index, const Op& op, const Details& details);
  Role AddAction(uint64_t index, uint32_t action);
  // The number of what an op does, kNone: nothing that counts.
  uint32_t ActionOf(const Op& op, const Details& details);

  std::function<bool(const std::string&)> matches_;
  std::vector<IterationBounds> annotated_;
  struct OpenRange {
    uint32_t name = 0;
    bool is_iteration = false;
  };
  std::vector<OpenRange> open_ranges_;
  bool inside_ = false;
  // Of each action the distance of its op to the one before, and what the action is, as
  // difference to the one before.
  VarintSequence actions_;
  uint64_t last_op_ = 0, last_action_ = 0;
  std::vector<uint32_t> action_of_name_;  // by name of a kernel
  std::vector<bool> updates_;             // by action
  std::map<uint32_t, uint32_t> steps_;    // ActionKinds::steps
  // Communications, until a kernel is seen: their ops as above, and kinds.
  void AddCall(uint64_t index, const Op& op, const Details& details);
  RankIterations FindByCommunication() const;
  bool computes_ = false;
  VarintSequence calls_;
  uint64_t last_call_ = 0;
  std::vector<CommunicationKind> kinds_;
  std::map<std::vector<uint64_t>, uint32_t> kind_of_;  // by what names one
};

// The optimizer, from 1, whose step a mark of this name says; 0: another range.
uint32_t SteppedOptimizer(std::string_view range);

// Whether a kernel of this name (mangled or not) belongs to the update of parameters:
// the optimizers of PyTorch (fused and multi-tensor), apex, Transformer Engine,
// DeepSpeed and bitsandbytes, gradient clipping and loss scaling.
bool UpdatesParameters(const std::string& kernel);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ITERATIONS_RANK_ITERATIONS_H_
