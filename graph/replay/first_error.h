// The first error that any part of the engine reports; it terminates the run.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_REPLAY_FIRST_ERROR_H_
#define VRANK_GRAPH_REPLAY_FIRST_ERROR_H_

#include <utility>

#include <absl/status/status.h>

namespace vrank::graph {

class FirstError {
 public:
  // Later ones are consequences, and dropped.
  void Report(absl::Status status) {
    if (!failed_)
      status_ = std::move(status);
    failed_ = true;
  }
  bool failed() const { return failed_; }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
  bool failed_ = false;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_FIRST_ERROR_H_
