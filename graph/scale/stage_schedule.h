// In which order a pipeline stage exchanges, and what of it repeats.
//
// A program is cut where the stage exchanges activations or gradients with others, and
// where it gives memory back: what it does up to the end of that is a *passage*. A
// schedule is a sequence of passages, some of which follow each other again and again:
// the warm-up of 1F1B is a repeat of a forward pass, its steady state one of a forward
// and a backward pass. Stages of one schedule differ in how often.
//
// Passages are equal that do the same at whatever cost: kernels by name, transfers by
// the stage relative to the own one, events by how many were recorded since.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_SCALE_STAGE_SCHEDULE_H_
#define VRANK_GRAPH_SCALE_STAGE_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/program/program.h"

namespace vrank::graph {

// Stages of the members, relative to the rank's own, by its number of the communicator;
// only of communicators that span stages.
using RelativeStages = std::map<uint32_t, std::vector<int32_t>>;

// Passages that follow each other `count` times.
struct PassageRepeat {
  size_t first = 0;   // passage
  size_t period = 0;  // passages
  size_t count = 0;   // at least 2
  // Equal for repeats of different stages that exchange the same with the stages
  // behind, or that exchange nothing and do the same.
  uint64_t key = 0;
};

// From the left, each of the shortest period that there is; without keys. `passages`:
// equal numbers for equal passages.
std::vector<PassageRepeat> FindRepeats(std::span<const uint64_t> passages);

class StageSchedule {
 public:
  // Whether passages are equal only where they take and give back the same memory. In
  // the passage in which a buffer is first needed, programs allocate what they keep, so
  // that which passage that is may differ between stages of one schedule.
  enum class Memory { kCompared, kIgnored };

  // `program` outlives it. REQUIRES: it is closed.
  StageSchedule(const Program* program, const RelativeStages& stages, Memory memory);

  const std::vector<PassageRepeat>& repeats() const { return repeats_; }
  // How often the repeats of this schedule occur in another one that is the same but
  // for that; nullopt: it is another schedule.
  std::optional<std::vector<size_t>> CountsIn(const StageSchedule& other) const;
  // The program with each repeat occurring that often. Repetitions are left out of, or
  // added to, the middle of a repeat, as copies of one there.
  std::unique_ptr<Program> WithCounts(std::span<const size_t> counts) const;

 private:
  uint64_t KeyOf(const PassageRepeat& repeat) const;

  const Program* program_;
  // By passage: the op after its last one; what it does; what it exchanges, with all
  // stages and with those behind (0: nothing).
  std::vector<uint64_t> ends_, passages_, exchanges_, exchanges_behind_;
  std::vector<PassageRepeat> repeats_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCALE_STAGE_SCHEDULE_H_
