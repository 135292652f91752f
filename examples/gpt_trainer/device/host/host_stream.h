// Streams and events of the host backend.
//
// A stream is a thread that works off a queue in order. An event counts its recordings;
// whoever waits for it waits for the last one made before, as CUDA documents it.
//
// What a piece of work throws is the job's failure. From then on streams record events
// and do nothing else: nobody waits for ever, and nobody reads what was not computed.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_STREAM_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>

#include "examples/gpt_trainer/device/host/host_failure.h"

namespace gpt {

class HostStream {
 public:
  // `jitter`: 0, or the seed of short random pauses before each piece of work, which
  // show a missing wait.
  HostStream(uint64_t jitter, std::shared_ptr<HostFailure> failure);
  // Finishes the queue.
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  void Enqueue(std::function<void()> work);
  // Runs where the job has failed, too. REQUIRES: does not throw.
  void EnqueueAlways(std::function<void()> work);
  // Waits until the queue is empty.
  void Synchronize();

 private:
  struct Work {
    std::function<void()> run;
    bool always;
  };

  void Push(Work work);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<Work> queue_;  // the front is being worked on
  uint64_t jitter_;
  const std::shared_ptr<HostFailure> failure_;
  bool ending_ = false;
  std::thread thread_;
};

class HostEvent {
 public:
  using Clock = std::chrono::steady_clock;

  void Record(HostStream& stream);
  void Await(HostStream& stream) const;
  void Synchronize() const;
  Clock::time_point last_recording() const;

 private:
  // Outlives the event where work that names it is still queued.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t reached = 0;
    Clock::time_point time;

    void WaitFor(uint64_t recording);
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
  uint64_t recordings_ = 0;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_STREAM_H_
