// Ranks that wait for a failed one give up as soon as it has said so.

#include "examples/gpt_trainer/device/host/host_world.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
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
    current_rank.world =
        std::make_shared<HostGroup>(1, "world", std::make_shared<HostFailure>());
  }
  return current_rank;
}

void RunRanks(const HostJob& job, const std::function<void(const World&)>& train) {
  const auto failure = std::make_shared<HostFailure>();
  const auto world = std::make_shared<HostGroup>(job.ranks, "world", failure);
  const auto run = [&](int rank) {
    current_rank = {&job, world, rank, {}, {}};
    try {
      train({rank, job.ranks, rank});
    } catch (...) {
      failure->Set(std::current_exception());
    }
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < job.ranks && !failure->happened(); ++rank) {
    try {
      ranks.emplace_back(run, rank);
    } catch (const std::system_error& error) {
      failure->Set(std::make_exception_ptr(std::runtime_error(
          "no thread for rank " + std::to_string(rank) + " of " +
          std::to_string(job.ranks) + ": " + error.what() + "; train fewer ranks")));
    }
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  failure->Rethrow();
}

}  // namespace gpt
