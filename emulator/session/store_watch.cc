#include "emulator/session/store_watch.h"

#include <set>
#include <vector>

#include "emulator/store/absent_ranks.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;

// Each rank in the emulator or at the store, and none runs.
bool StoreWatch::AllWait() {
  std::set<int32_t> at_store;
  for (const StoreServer::Wait& wait : store_->Waits()) {
    if (!IsKeyOfPytorch(wait.key))
      return false;
    if (wait.rank.has_value())
      at_store.insert(*wait.rank);
  }
  std::vector<const RealRank*> open;
  for (const auto& rank : world_->real()) {
    if (rank->closed())
      continue;
    if (!rank->link().Blocked() && !at_store.contains(rank->rank()))
      return false;
    open.push_back(rank.get());
  }
  return !at_store.empty() && rest_->AreAtRest(open);
}

bool StoreWatch::IsStuck() {
  const auto now = Clock::now();
  if (!all_real_ || now - last_check_ < Milliseconds(schedule::kStoreLook))
    return false;
  last_check_ = now;
  if (!store_->HasMissing()) {
    since_.reset();
    return false;
  }
  if (!AllWait())
    return false;
  // A rank that still starts has not waited so far, however long that takes.
  if (!since_.has_value())
    since_ = now;
  return now - *since_ >= Milliseconds(schedule::kStore);
}

}  // namespace vrank::emulator
