// Ops that create communicators, as the host issues them.
//
// Thread rule: one thread. Errors: a number that is in use (FirstError).

#ifndef VRANK_GRAPH_REPLAY_CREATION_OPS_H_
#define VRANK_GRAPH_REPLAY_CREATION_OPS_H_

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/replay/first_error.h"
#include "graph/replay/inits.h"
#include "graph/replay/numbered.h"
#include "graph/replay/splits.h"

namespace vrank::graph {

template <class Step>
class CreationOps {
 public:
  CreationOps(Inits<Step>& inits, Splits<Step>& splits, FirstError& error)
      : inits_(inits), splits_(splits), error_(error) {}

  // False: the host is blocked at this op.
  bool Create(RankState& r, const Op& op) {
    LocalCommunicator& local = CommunicatorAt(r, op.a, error_);
    if (local.state != LocalCommunicator::State::kUnused) {
      error_.Report(absl::InvalidArgumentError(fmt::format(
          "rank {}: op {} creates communicator {} a second time; numbers are "
          "never reused",
          r.world_rank, r.cursor, op.a)));
      return false;
    }
    const Creation& call = r.program->details().creations[op.b];
    return call.parent == 0 ? inits_.Join(r, op) : splits_.Join(r, op, call);
  }

 private:
  Inits<Step>& inits_;
  Splits<Step>& splits_;
  FirstError& error_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_CREATION_OPS_H_
