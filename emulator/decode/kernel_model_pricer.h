// The decoder's pricer on top of the real cost model.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_DECODE_KERNEL_MODEL_PRICER_H_
#define VRANK_EMULATOR_DECODE_KERNEL_MODEL_PRICER_H_

#include <string>

#include "emulator/decode/work_pricer.h"
#include "graph/models/kernel_model.h"

namespace vrank::emulator {

class KernelModelPricer : public WorkPricer {
 public:
  explicit KernelModelPricer(graph::KernelModel* model) : model_(model) {}

  absl::StatusOr<uint32_t> DefineKernel(const std::string& mangled) override {
    return model_->Define(mangled);
  }
  absl::StatusOr<graph::WorkCost> Kernel(
      uint32_t kernel, const protocol::Kernel& launch,
      std::span<const std::byte> arguments) override {
    return model_->Kernel(kernel, launch, arguments);
  }
  graph::WorkCost Gemm(const protocol::Gemm& gemm) override {
    return model_->Gemm(gemm);
  }
  graph::WorkCost Copy(const protocol::Copy& copy) override {
    return model_->Copy(copy);
  }
  graph::WorkCost Memset(const protocol::Memset& memset) override {
    return model_->Memset(memset);
  }
  const graph::GpuDescription* gpu() const override {
    return &model_->gpu().description;
  }

 private:
  graph::KernelModel* const model_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_DECODE_KERNEL_MODEL_PRICER_H_
