// A job in one process: every rank is a thread.
//
// RunRanks starts the ranks. What a rank's thread creates (streams, communicators)
// finds its rank by HostRank::Current(), as CUDA finds the current device of a thread.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_WORLD_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "examples/gpt_trainer/world.h"

namespace gpt {

class HostGroup;
class HostStream;

struct HostJob {
  int ranks = 1;
  // Not 0: streams pause at random, to show missing waits.
  uint64_t jitter = 0;
  // A fault: this call of the communicator of this name leaves every member with its
  // own contribution. -1: none. Numbers count the communicator's calls from 0.
  std::string faulty_communicator;
  int faulty_call = -1;
};

// What a rank issued: the measure for the closed forms.
struct HostCounters {
  double matrix_flops = 0;
  // By operation (all_reduce, ...): what Traffic in closed_form.h counts.
  std::map<std::string, double> bytes;
  // By communicator's name: collective calls made.
  std::map<std::string, int> calls;
};

struct HostRank {
  const HostJob* job = nullptr;
  std::shared_ptr<HostGroup> world;
  int rank = 0;
  HostCounters counters;
  std::vector<HostStream*> streams;

  // Of this thread. A thread that RunRanks did not start is the only rank of its job.
  static HostRank& Current();
};

// Runs `train` on a thread per rank. The first exception of a rank ends them all, and
// is thrown again.
void RunRanks(const HostJob& job, const std::function<void(const World&)>& train);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_WORLD_H_
