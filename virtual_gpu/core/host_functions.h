// Runs the callbacks that a program puts into streams (cudaLaunchHostFunc).
//
// The caller is never blocked. The engine tells when each callback starts; callbacks of
// one stream run in the stream's order, and of those whose start is known the earliest
// (then the lowest lane) runs first. One runs at a time, on a thread of its own, as the
// driver does it. It reads the clock as of its start, wherever the process is by then.
// Once it has returned, the engine hears how far that clock has gone on meanwhile (by
// sleeps, by waits for others), and its stream goes on behind it.
//
// Threads: one runner, and one collector per stream with callbacks, which waits for the
// engine's answers; all are started on first use and live as long as this object.
//
// Thread rule: every method may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_HOST_FUNCTIONS_H_
#define VRANK_VIRTUAL_GPU_CORE_HOST_FUNCTIONS_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/guest/channel.h"
#include "virtual_gpu/core/obligations.h"

namespace vrank::gpu {

class HostFunctions {
 public:
  struct Call {
    void (*function)(void*) = nullptr;
    void* argument = nullptr;
    uint32_t slot = 0;     // where the engine answers with the start
    uint64_t number = 0;   // of the process's host functions
    uint64_t id = 0;       // the obligation that the run fulfils
    ObligationSet before;  // what must have landed when it runs
    TimePoint start{};     // once the engine has told it
  };

  HostFunctions(Channel* channel, Obligations* obligations)
      : channel_(channel), obligations_(obligations) {}
  // REQUIRES: the engine has answered for every callback.
  ~HostFunctions();

  // REQUIRES: calls of one lane arrive in the lane's order.
  void Add(uint32_t lane, Call call);

 private:
  struct Collector {
    std::condition_variable added;
    std::deque<Call> waiting;
    std::thread thread;
  };

  using Ready = std::multimap<std::pair<int64_t, uint32_t>, Call>;

  void Collect(uint32_t lane, Collector* collector);
  Ready::iterator NextToRun();
  void RunOne(const Call& call);
  void Run();

  Channel* const channel_;
  Obligations* const obligations_;
  std::mutex mutex_;
  std::condition_variable ready_changed_;
  bool stopping_ = false;
  std::thread runner_;
  std::map<uint32_t, std::unique_ptr<Collector>> collectors_;  // by lane
  Ready ready_;                                                // by (start, lane)
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_HOST_FUNCTIONS_H_
