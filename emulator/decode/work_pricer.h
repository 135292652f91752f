// How long a kernel, GEMM, copy or memset takes at the GPU's highest clock: the
// decoder's view of the cost models.
//
// A seam, so that the decoder is tested without GPU descriptions and cost files.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_DECODE_WORK_PRICER_H_
#define VRANK_EMULATOR_DECODE_WORK_PRICER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <absl/status/statusor.h>

#include "base/guest/protocol.h"
#include "graph/models/roofline.h"

namespace vrank::emulator {

class WorkPricer {
 public:
  virtual ~WorkPricer() = default;
  // A number for a kernel, by its mangled name; the same name gives the same number.
  virtual absl::StatusOr<uint32_t> DefineKernel(const std::string& mangled) = 0;
  // Errors are the job's: a cost file that does not fit the launch.
  // REQUIRES: `kernel` came from DefineKernel.
  virtual absl::StatusOr<graph::WorkCost> Kernel(
      uint32_t kernel, const protocol::Kernel& launch,
      std::span<const std::byte> arguments) = 0;
  virtual graph::WorkCost Gemm(const protocol::Gemm& gemm) = 0;
  virtual graph::WorkCost Copy(const protocol::Copy& copy) = 0;
  virtual graph::WorkCost Memset(const protocol::Memset& memset) = 0;
  // Whose clock the prices are for; nullptr: they do not depend on one. Outlives the
  // ranks.
  virtual const graph::GpuDescription* gpu() const { return nullptr; }
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_DECODE_WORK_PRICER_H_
