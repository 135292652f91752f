// Operations of a replay as flows: decides ends for the engine (contention.h).
//
// A member of a collective ends when it would alone, or when the last piece of data
// that it waits for has moved, whichever is later.
//
// Thread rule: one thread; serves one replay.

#ifndef VRANK_GRAPH_FLOW_FLOW_CONTENTION_H_
#define VRANK_GRAPH_FLOW_FLOW_CONTENTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "graph/flow/flow_model.h"
#include "graph/flow/flow_simulation.h"
#include "graph/replay/contention.h"

namespace vrank::graph {

class FlowContention : public Contention {
 public:
  // `model` outlives it.
  explicit FlowContention(const FlowModel* model);

  void Begin(const Collective& collective, std::span<const Member> members) override;
  void Begin(const Transfer& transfer) override;
  bool Advance(std::vector<Ended>* ended) override;

  const FlowSimulation& simulation() const { return simulation_; }

 private:
  using Pieces = std::vector<CollectivePiece>;

  // The plans of one communicator, by call.
  struct Known {
    std::string identity;
    uint64_t hash = 0;
    std::map<CollectiveCall, std::unique_ptr<Pieces>> plans;
  };
  struct Waiter {
    uint64_t ticket = 0;
    int64_t end_ns = 0;
    uint32_t pieces = 0;  // that have not moved
    bool here = false;
  };
  // A collective, from its first member's Begin to its last member's end.
  struct Operation {
    const Pieces* pieces = nullptr;
    uint64_t key = 0;             // in operations_
    uint32_t left = 0;            // members that have not been told
    std::vector<Waiter> waiters;  // by member
    std::vector<int64_t> moved;   // by piece: its end; kNotStarted, kMoving
  };
  // What a key of the simulation means.
  struct Moving {
    uint32_t operation = ~uint32_t{0};  // none: a transfer
    uint32_t piece = 0;
    uint64_t ticket = 0;
    int64_t end_ns = 0;  // alone
  };
  static constexpr int64_t kNotStarted = -1, kMoving = -2;

  Known& KnownOf(const Collective& collective);
  uint32_t OperationOf(const Collective& collective, const Known& known);
  void Join(uint32_t operation, uint64_t order, const Member& member);
  void Move(const Moving& what, uint64_t order, const FlowPlan& plan);
  void Moved(const Moving& what, int64_t end_ns, std::vector<Ended>* ended);
  void Told(uint32_t number);
  uint64_t HashOf(const std::string& identity);

  const FlowModel* const model_;
  FlowSimulation simulation_;
  std::vector<Known> known_;  // by the engine's number
  std::map<std::tuple<int32_t, int32_t, uint64_t>, std::unique_ptr<FlowPlan>>
      transfers_;
  std::vector<Operation> operations_;
  std::vector<uint32_t> free_operations_;
  std::unordered_map<uint64_t, uint32_t> open_;  // communicator and sequence
  std::vector<Moving> moving_;                   // by key
  std::vector<uint32_t> free_moving_;
  std::vector<Ended> ready_;  // known without the simulation
  std::vector<FlowSimulation::Ended> flow_ends_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FLOW_FLOW_CONTENTION_H_
