#include "virtual_gpu/core/loss_scale.h"

#include <cmath>

namespace vrank::gpu {

bool UpdatesLossScale(std::string_view mangled) {
  return mangled == "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi";
}

// It backs off after a step with an infinite gradient, and grows after as many steps
// without one as the interval says, unless it would become infinite itself.
LossScale UpdateLossScale(LossScale before, float found_inf,
                          const LossScaleRule& rule) {
  const double scale = before.scale;
  if (found_inf != 0)
    return {static_cast<float>(scale * rule.backoff_factor), 0};
  // As the kernel counts: modulo 2^32.
  const auto steps =
      static_cast<int32_t>(static_cast<uint32_t>(before.growth_tracker) + 1);
  if (steps != rule.growth_interval)
    return {before.scale, steps};
  const auto grown = static_cast<float>(scale * rule.growth_factor);
  return {std::isfinite(grown) ? grown : before.scale, 0};
}

}  // namespace vrank::gpu
