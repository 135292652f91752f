// The first exception wins; ranks that wait for a failed one give up after a minute.

#include "examples/gpt_trainer/device/host/host_world.h"

#include <exception>
#include <mutex>
#include <thread>

#include "examples/gpt_trainer/device/host/host_group.h"

namespace gpt {
namespace {

thread_local HostRank current_rank;

}  // namespace

HostRank& HostRank::Current() {
  static const HostJob kAlone;
  if (current_rank.job == nullptr) {
    current_rank.job = &kAlone;
    current_rank.world = std::make_shared<HostGroup>(1, "world");
  }
  return current_rank;
}

void RunRanks(const HostJob& job, const std::function<void(const World&)>& train) {
  const auto world = std::make_shared<HostGroup>(job.ranks, "world");
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < job.ranks; ++rank) {
    ranks.emplace_back([&, rank] {
      current_rank = {&job, world, rank, {}, {}};
      try {
        train({rank, job.ranks, rank});
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = failure ? failure : std::current_exception();
      }
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace gpt
