// A training job in the engine's terms, for benchmarks: layers of kernels and tensor
// parallel all-reduces, pipeline sends and receives, a gradient exchange on a second
// stream, one host wait per iteration. Virtual ranks follow one leader per stage.

#ifndef VRANK_BENCH_REPLAY_SPMD_JOB_H_
#define VRANK_BENCH_REPLAY_SPMD_JOB_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/fold/job.h"
#include "graph/replay/engine.h"

namespace vrank::graph {

struct SpmdShape {
  uint32_t tensor = 8, pipeline = 16, data = 8;
  uint32_t micro_batches = 16;
  uint32_t kernels_per_pass = 60;      // per stage, micro-batch and direction
  uint32_t all_reduces_per_pass = 12;  // tensor parallel, between the kernels
  uint32_t iterations = 1;
  uint32_t ranks() const { return tensor * pipeline * data; }
};

// One program per pipeline stage; rank = (stage * data + d) * tensor + t.
class SpmdJob : public Membership {
 public:
  explicit SpmdJob(const SpmdShape& shape);

  void AddRanks(Engine& engine);
  ReplayJob Ranks() const;
  uint64_t ops() const;  // over all ranks

  absl::StatusOr<InitAnswer> Init(const InitCaller& caller,
                                  const Creation& call) override;
  absl::StatusOr<std::vector<SplitGroup>> Split(std::string_view, uint32_t,
                                                std::span<const SplitMember>) override;

 private:
  void WriteStage(uint32_t stage);

  SpmdShape shape_;
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace vrank::graph

#endif  // VRANK_BENCH_REPLAY_SPMD_JOB_H_
