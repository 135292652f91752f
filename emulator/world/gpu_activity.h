// When a real rank's GPU computed, communicated and copied: what a part of its run
// consists of.
//
// Memory: 24 bytes for each stretch of work of one kind on one lane; the latest
// kMostSpans are kept.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_GPU_ACTIVITY_H_
#define VRANK_EMULATOR_WORLD_GPU_ACTIVITY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "graph/program/program.h"
#include "graph/replay/stamp.h"
#include "graph/replay/timeline_observer.h"

namespace vrank::emulator {

// What a stretch of time consists of: the first four add up to its length. Where
// several things happen at a time, the first of them counts.
struct GpuTime {
  // Any kernel that does not communicate, and memsets.
  int64_t compute_ns = 0;
  // A collective or a transfer, from this rank's arrival: waits for other ranks
  // included. Kernels that communicate (base/communication_kernel.h), too.
  int64_t exposed_communication_ns = 0;
  int64_t copies_ns = 0;
  int64_t idle_ns = 0;
  // Beside the sum: communication while the GPU computes.
  int64_t overlapped_communication_ns = 0;
};

class GpuActivity final : public graph::TimelineObserver {
 public:
  static constexpr size_t kMostSpans = size_t{1} << 18;

  // `program` outlives it.
  explicit GpuActivity(const graph::Program* program) : program_(program) {}

  // graph::TimelineObserver. REQUIRES: the op is still in the program when it is
  // passed.
  void OnOpPassed(int32_t rank, uint64_t op, const graph::Stamp& reached,
                  const graph::Stamp& passed) override;
  void OnOpEnded(int32_t rank, uint64_t op, const graph::Stamp& begin,
                 const graph::Stamp& end) override;

  // nullopt: not all of that time is kept. REQUIRES: begin_ns <= end_ns
  std::optional<GpuTime> Between(int64_t begin_ns, int64_t end_ns) const;

 private:
  enum class Kind : uint8_t { kCompute, kCommunication, kCopy, kNone };
  struct Span {
    int64_t begin_ns, end_ns;
    uint32_t lane;
    Kind kind;
  };

  // Work that the host has passed and that has not ended, as far as is known.
  struct Pending {
    uint64_t op;
    uint32_t lane;
    Kind kind;  // kNone: it has ended since
  };

  Kind KindOf(const graph::Op& op);
  Kind KindOfKernel(uint32_t name);
  void Add(const Span& span);

  const graph::Program* const program_;
  std::vector<Kind> kinds_;      // of kernels, by name; kNone: not looked at yet
  uint64_t next_op_ = 0;         // behind the op passed last
  std::deque<Pending> pending_;  // ascending op
  std::vector<uint64_t> early_;  // ops that ended before the host has passed them
  std::deque<Span> spans_;       // in the order in which they became known
  // What is dropped ended by then.
  int64_t dropped_until_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_GPU_ACTIVITY_H_
