// A profile written by hand, event by event; times in microseconds.
//
// Thread rule: one thread.

#ifndef VRANK_TESTS_GRAPH_IMPORT_HAND_PROFILE_H_
#define VRANK_TESTS_GRAPH_IMPORT_HAND_PROFILE_H_

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace vrank::graph {

class HandProfile {
 public:
  explicit HandProfile(int rank = 0, int world_size = 1)
      : rank_(rank), world_size_(world_size) {}

  void Step(int number, int64_t begin_us, int64_t us) {
    Range(fmt::format("ProfilerStep#{}", number), begin_us, us);
  }
  void Range(const std::string& name, int64_t begin_us, int64_t us) {
    Add("user_annotation", name, 1, begin_us, us, "");
  }
  void Operator(const std::string& name, int64_t begin_us, int64_t us,
                const std::string& args) {
    Add("cpu_op", name, 1, begin_us, us, args);
  }
  void Call(const std::string& name, int64_t begin_us, int64_t us) {
    Add("cuda_runtime", name, 1, begin_us, us,
        fmt::format(R"("correlation": {})", ++correlation_));
  }
  // A launch of 5 us, and the kernel. `more`: members of its "args".
  void Kernel(const std::string& name, int64_t launch_us, int64_t begin_us, int64_t us,
              int stream = 7, const std::string& more = "") {
    Call("cudaLaunchKernel", launch_us, 5);
    Add("kernel", name, stream, begin_us, us,
        fmt::format(R"("device": 0, "stream": {}, "correlation": {}{}{})", stream,
                    correlation_, more.empty() ? "" : ", ", more));
  }
  // One that was launched before the recording began.
  void KernelWithoutLaunch(const std::string& name, int64_t begin_us, int64_t us,
                           int stream) {
    Add("kernel", name, stream, begin_us, us,
        fmt::format(R"("device": 0, "stream": {}, "correlation": {})", stream,
                    ++correlation_));
  }
  // PyTorch's total after an allocation (positive) or a release, of GPU 0.
  void Memory(int64_t at_us, int64_t bytes, int64_t allocated, int64_t reserved,
              int device_type = 1) {
    events_ += fmt::format(
        R"({}{{"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", )"
        R"("pid": 1, "tid": 1, "ts": {}, "args": {{"Total Reserved": {}, )"
        R"("Total Allocated": {}, "Bytes": {}, "Addr": 1, "Device Id": 0, )"
        R"("Device Type": {}}}}})",
        Comma(), at_us, reserved, allocated, bytes, device_type);
  }

  // A group of the header, as PyTorch lists it; `ranks`: "0, 1".
  void Group(const std::string& name, int size, const std::string& ranks) {
    groups_ += fmt::format(
        R"({}{{"pg_name": "{}", "pg_desc": "a group", "backend_config": "cuda:nccl", )"
        R"("pg_size": {}, "ranks": [{}]}})",
        groups_.empty() ? "" : ", ", name, size, ranks);
  }

  std::string Text() const {
    return fmt::format(
        R"({{"deviceProperties": [{{"id": 0, "name": "a GPU"}}], "distributedInfo": )"
        R"({{"backend": "nccl", "rank": {}, "world_size": {}, "pg_config": [{}]}}, )"
        R"("traceEvents": [{}]}})",
        rank_, world_size_, groups_, events_);
  }

 private:
  const char* Comma() const { return events_.empty() ? "" : ",\n"; }
  void Add(const char* category, const std::string& name, int thread, int64_t begin_us,
           int64_t us, const std::string& args) {
    events_ += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": {}, "ts": {}, )"
        R"("dur": {}, "args": {{{}}}}})",
        Comma(), category, name, thread, begin_us, us, args);
  }

  const int rank_, world_size_;
  int correlation_ = 0;
  std::string events_, groups_;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_IMPORT_HAND_PROFILE_H_
