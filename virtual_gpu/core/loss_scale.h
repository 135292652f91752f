// The kernel by which torch.amp's GradScaler moves its scale on.
//
// A virtual GPU runs no kernel, but programs print the scale, and some decide by it
// whether their learning rate goes on. Of aten/src/ATen/native/cuda/AmpKernels.cu in
// PyTorch 2.11: amp_update_scale_cuda_kernel(float* scale, int* growth_tracker,
// const float* found_inf, double growth_factor, double backoff_factor,
// int growth_interval), one thread.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_LOSS_SCALE_H_
#define VRANK_VIRTUAL_GPU_CORE_LOSS_SCALE_H_

#include <cstdint>
#include <string_view>

namespace vrank::gpu {

bool UpdatesLossScale(std::string_view mangled);

struct LossScale {
  float scale = 0;
  int32_t growth_tracker = 0;  // steps in a row without an infinite gradient
};

struct LossScaleRule {
  double growth_factor = 0, backoff_factor = 0;
  int32_t growth_interval = 0;
};

// After one more step; `found_inf`: 0 where all gradients were finite.
LossScale UpdateLossScale(LossScale before, float found_inf, const LossScaleRule& rule);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_LOSS_SCALE_H_
