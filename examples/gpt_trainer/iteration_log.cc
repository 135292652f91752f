// Plain printf, flushed per line: logs are read while the job runs.

#include "examples/gpt_trainer/iteration_log.h"

#include <cstdio>

#include "examples/gpt_trainer/closed_form.h"

namespace gpt {

IterationLog::IterationLog(const Arguments& arguments, const ModelShape& shape,
                           int rank)
    : arguments_(arguments),
      shape_(shape),
      enabled_(arguments.log_rank < 0 || arguments.log_rank == rank),
      rank_(rank) {}

void IterationLog::Start() const {
  if (!enabled_) {
    return;
  }
  std::printf(
      "gpt_trainer: rank %d of %d, tp %d x cp %d x pp %d x dp %d | layers %d, hidden "
      "%d, heads "
      "%d, sequence %d, vocabulary %d | %d micro-batches of %d\n",
      rank_, shape_.world_size(), shape_.tp, shape_.cp, shape_.pp, shape_.dp,
      shape_.layers, shape_.hidden, shape_.heads, shape_.sequence, shape_.vocab,
      shape_.micro_batches, shape_.micro_batch_size);
  std::fflush(stdout);
}

void IterationLog::Iteration(int iteration, const IterationResult& result,
                             const AllocatorStatistics& memory) const {
  if (!enabled_) {
    return;
  }
  const double seconds = result.device_seconds;
  const double tokens = shape_.tokens();
  const double flops_per_gpu = ModelFlops(shape_) / shape_.world_size();
  char scale[32] = "";
  if (arguments_.loss_scale != 1.0f) {
    std::snprintf(scale, sizeof(scale), " | loss scale %g",
                  static_cast<double>(result.loss_scale));
  }
  constexpr double kGiB = 1 << 30;
  std::printf(
      "iteration %d/%d | time %.3f ms (host %.3f ms) | tokens/s %.1f | TFLOP/s per GPU "
      "%.1f | loss %.6f | grad norm %.4f%s%s | peak memory %.3f GiB (reserved %.3f "
      "GiB)\n",
      iteration + 1, arguments_.iterations, seconds * 1e3, result.host_seconds * 1e3,
      tokens / seconds, flops_per_gpu / seconds * 1e-12, result.loss,
      result.gradient_norm, result.skipped ? " (not finite: skipped)" : "", scale,
      static_cast<double>(memory.peak_allocated_bytes) / kGiB,
      static_cast<double>(memory.peak_reserved_bytes) / kGiB);
  std::fflush(stdout);
}

void IterationLog::End(const AllocatorStatistics& memory) const {
  if (!enabled_) {
    return;
  }
  const int stage = shape_.CoordinatesOf(rank_).pp;
  std::printf(
      "memory of rank %d: peak %zu bytes in use (closed form %.0f), %zu reserved | "
      "%lld "
      "allocations, %lld of them from the device | cache emptied %lld times\n",
      rank_, memory.peak_allocated_bytes,
      PeakMemory(shape_, stage, arguments_.bucket_mb).total(),
      memory.peak_reserved_bytes, memory.allocations, memory.device_allocations,
      memory.retries);
  std::fflush(stdout);
}

}  // namespace gpt
