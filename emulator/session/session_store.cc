// Real ranks that wait at the store for what no rank sets.
//
// A rank that is not real would have set it (SetForAbsent, session_quiet.cc). Where all
// are real, a wait at the store is as good as one in the emulator: once every rank
// waits in the one or the other and none runs, the job is stuck. That holds for keys of
// PyTorch itself, which a rank that waits here will not set. A wait for a key of the
// program ends by the limit that the program gave it (session_quiet.cc).

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "emulator/session/session.h"
#include "emulator/store/absent_ranks.h"
#include "emulator/watch/socket_owner.h"
#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

using schedule::Milliseconds;
using std::chrono::milliseconds;

constexpr size_t kStoreLinesShown = 4;

}  // namespace

std::optional<int32_t> Session::RankOfPort(uint16_t port) const {
  const std::optional<std::string> socket = SocketAtPort(port);
  if (!socket.has_value())
    return std::nullopt;
  for (const auto& rank : world_->real())
    for (const pid_t pid : ProcessesOf(*rank))
      if (HoldsSocket(pid, *socket))
        return rank->rank();
  return std::nullopt;
}

std::string Session::StoreLines() const {
  std::string text;
  std::set<std::string> lines;
  for (const StoreServer::Wait& wait : store_->Waits()) {
    if (lines.size() == kStoreLinesShown)
      break;
    const std::string line = fmt::format(
        "\n  {} waits at the store for key '{}': {}",
        wait.rank.has_value() ? fmt::format("rank {}", *wait.rank) : "a process",
        wait.key, MeaningOfKey(wait.key));
    if (lines.insert(line).second)
      text += line;
  }
  return text;
}

bool Session::AllWaitHereOrAtStore() {
  std::set<int32_t> at_store;
  for (const StoreServer::Wait& wait : store_->Waits()) {
    if (!IsKeyOfPytorch(wait.key))
      return false;
    if (wait.rank.has_value())
      at_store.insert(*wait.rank);
  }
  std::vector<const RealRank*> all;
  for (const auto& rank : world_->real()) {
    if (rank->closed())
      continue;
    if (!rank->link().Blocked() && !at_store.contains(rank->rank()))
      return false;
    all.push_back(rank.get());
  }
  return !at_store.empty() && Rest(all, ThreadsIn::kAnyWait).has_value();
}

absl::Status Session::CheckStoreWaits() {
  const auto now = HangDetector::Clock::now();
  if (!options_.virtual_ranks.empty() ||
      now - last_store_look_ < Milliseconds(schedule::kStoreLook))
    return absl::OkStatus();
  last_store_look_ = now;
  if (!store_->HasMissing())
    store_waits_since_.reset();
  else if (AllWaitHereOrAtStore()) {
    // A rank that still starts has not waited so far, however long that takes.
    if (!store_waits_since_.has_value())
      store_waits_since_ = now;
    if (now - *store_waits_since_ >= Milliseconds(schedule::kStore))
      return StuckError();
  }
  return absl::OkStatus();
}

}  // namespace vrank::emulator
