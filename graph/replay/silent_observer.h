// An observer that listens to nothing, to derive from where little is wanted.
//
// Thread rule: stateless.

#ifndef VRANK_GRAPH_REPLAY_SILENT_OBSERVER_H_
#define VRANK_GRAPH_REPLAY_SILENT_OBSERVER_H_

#include "graph/replay/engine.h"

namespace vrank::graph {

class SilentObserver : public EngineObserver {
 public:
  void OnHostAnswer(int32_t, uint64_t, Stamp, Stamp, uint64_t, uint64_t) override {}
  void OnQueryAnswer(int32_t, uint64_t, Stamp, bool, Stamp, uint64_t) override {}
  void OnHostPassed(int32_t, uint64_t) override {}
  void OnHostFuncStart(int32_t, uint64_t, Stamp) override {}
  void OnTokenEnd(int32_t, uint32_t, uint32_t, Stamp) override {}
  void OnRange(int32_t, uint32_t, bool, Stamp) override {}
  void OnCollectiveEnd(const std::string&, uint32_t, uint32_t, int32_t,
                       const CollectiveCall&, Stamp, Stamp) override {}
  void OnTransferEnd(const std::string&, uint32_t, uint32_t, uint32_t, uint64_t, bool,
                     int32_t, Stamp, Stamp) override {}
  void OnCommunicator(int32_t, uint32_t, const std::string&, std::span<const int32_t>,
                      uint32_t) override {}
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_SILENT_OBSERVER_H_
