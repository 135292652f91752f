// The arrows of a Perfetto trace: which communications of which processes they join.
//
// Thread rule: constant after construction.

#ifndef VRANK_GRAPH_EXPORT_PERFETTO_ARROWS_H_
#define VRANK_GRAPH_EXPORT_PERFETTO_ARROWS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/analysis/path.h"
#include "graph/export/perfetto.h"

namespace vrank::graph {

// A process of the trace.
struct PerfettoProcess {
  int32_t world_rank = 0;
  uint32_t ranks = 1;   // that it stands for
  uint32_t played = 0;  // place in Timeline::ranks
};

// By world rank.
std::vector<PerfettoProcess> ProcessesOf(const Timeline& timeline,
                                         const PerfettoOptions& options);

// `played`: place in Timeline::ranks.
inline PerfettoSpan SpanOf(const PerfettoOptions& options, uint32_t played) {
  return options.spans.empty() ? PerfettoSpan() : options.spans[played];
}

class PerfettoArrows {
 public:
  // All outlive this.
  PerfettoArrows(const Timeline* timeline,
                 const std::vector<PerfettoProcess>* processes,
                 const PerfettoOptions* options);

  // Numbers of the arrows that begin or end at an op of a process.
  const std::vector<uint64_t>& From(uint32_t process, uint32_t op) const {
    return Of(from_, {process, op});
  }
  const std::vector<uint64_t>& To(uint32_t process, uint32_t op) const {
    return Of(to_, {process, op});
  }

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // process, op
  using Ends = std::map<Key, std::vector<uint64_t>>;

  static const std::vector<uint64_t>& Of(const Ends& ends, Key key);
  void Find(uint32_t process);
  bool BeginIsShown(const OpPlace& at) const;
  // The process on the other side; nullopt: it is not shown.
  std::optional<uint32_t> Partner(uint32_t process, uint32_t op,
                                  const Communication& why) const;

  const Timeline& timeline_;
  const std::vector<PerfettoProcess>& processes_;
  const PerfettoOptions& options_;
  std::map<int32_t, uint32_t> by_rank_;     // processes, by world rank
  std::map<uint32_t, uint32_t> by_played_;  // ... of classes
  uint64_t arrows_ = 0;
  std::set<std::pair<Key, Key>> joined_;
  Ends from_, to_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_EXPORT_PERFETTO_ARROWS_H_
