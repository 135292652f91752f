// The loss scale of torch.amp (loss_scale.h).

#include <cstring>
#include <memory>
#include <vector>

#include "virtual_gpu/core/kernel_values.h"
#include "virtual_gpu/core/loss_scale.h"
#include "virtual_gpu/core/named_effect.h"

namespace vrank::gpu {
namespace {

// Whether a gradient is infinite is computed, so the host reads that none is. What
// follows for the scale counts as computed as well. Nothing else writes scale and
// tracker but fills and copies, though other kernels get pointers to what lies before
// them.
class LossScaleEffect final : public NamedEffect {
 public:
  bool Write(const KernelLaunch& launch, Contents& contents) const override;
};

bool LossScaleEffect::Write(const KernelLaunch& launch, Contents& contents) const {
  const auto arguments = ArgumentsOf<6>(launch);
  if (!arguments)
    return false;
  const auto& at = *arguments;
  const uint64_t scale = PointerAt(at[0], 0), tracker = PointerAt(at[1], 0),
                 found = PointerAt(at[2], 0);
  LossScale before;
  LossScaleRule rule;
  float found_inf = 0;
  bool scale_known = false, tracker_known = false;
  const auto bytes_of = [](auto* number) {
    return reinterpret_cast<unsigned char*>(number);
  };
  if (!contents.ReadLatest(scale, sizeof before.scale, bytes_of(&before.scale),
                           &scale_known) ||
      !contents.IsValid(tracker, sizeof before.growth_tracker))
    return false;
  // Lost where a kernel may have written so far, it counts anew.
  contents.ReadLatest(tracker, sizeof before.growth_tracker,
                      bytes_of(&before.growth_tracker), &tracker_known);
  // Where it waits for other ranks, these would have computed theirs, too.
  std::vector<Landing> landings;
  bool found_known = contents.IsKnown(found, sizeof found_inf);
  if (found_known)
    found_known = *contents.Gather(found, sizeof found_inf, bytes_of(&found_inf),
                                   &landings) == '\0';
  else
    contents.ReadsOneElement(found, sizeof found_inf, sizeof found_inf,
                             bytes_of(&found_inf));
  std::memcpy(&rule.growth_factor, at[3], sizeof rule.growth_factor);
  std::memcpy(&rule.backoff_factor, at[4], sizeof rule.backoff_factor);
  std::memcpy(&rule.growth_interval, at[5], sizeof rule.growth_interval);
  LossScale after = UpdateLossScale(before, found_inf, rule);
  const bool known = scale_known && tracker_known && found_known && landings.empty();
  const auto write = [&](uint64_t address, auto* number) {
    const unsigned char* const bytes = bytes_of(number);
    const bool stored = known && contents.StoreBytes(address, bytes, sizeof *number);
    Origin origin =
        stored ? Origin::Bytes()
               : Origin::Computed(launch.kernel->writer(), bytes, sizeof *number);
    origin.own = true;
    contents.Write(address, sizeof *number, origin);
  };
  write(scale, &after.scale);
  write(tracker, &after.growth_tracker);
  return true;
}

}  // namespace

std::unique_ptr<const NamedEffect> NewLossScaleEffect(std::string_view mangled) {
  if (!UpdatesLossScale(mangled))
    return nullptr;
  return std::make_unique<LossScaleEffect>();
}

}  // namespace vrank::gpu
