// The threads beside the one that runs a sweep.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_SWEEP_HELPERS_H_
#define VRANK_GRAPH_SWEEP_HELPERS_H_

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace vrank::graph {

class Helpers {
 public:
  // Set where an exception (no memory) ends the run before it is over: helpers leave.
  explicit Helpers(std::atomic<bool>* gave_up) : gave_up_(gave_up) {}
  ~Helpers() {
    *gave_up_ = *gave_up_ || !threads_.empty();
    Join();
  }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  // Where a limit leaves no room for another thread, those that there are do its work.
  template <typename Work>
  void Add(Work work) {
    try {
      threads_.emplace_back(std::move(work));
    } catch (const std::system_error&) {
    }
  }
  void Join() {
    for (std::thread& thread : threads_)
      thread.join();
    threads_.clear();
  }

 private:
  std::atomic<bool>* const gave_up_;
  std::vector<std::thread> threads_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_HELPERS_H_
