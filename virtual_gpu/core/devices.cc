#include "virtual_gpu/core/devices.h"

#include <cstdlib>

#include "base/guest/raw_log.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/device_attributes.h"
#include "virtual_gpu/core/thread_state.h"
#include "virtual_gpu/core/visible_devices.h"

namespace vrank::gpu {

Error Devices::Reachable() {
  if (channel_ == nullptr) {
    static std::atomic<bool> said;
    if (!said.exchange(true))
      RawLog(
          "virtual_gpu", "%s",
          getenv("VRANK_LAUNCHER") != nullptr
              ? "the launcher, or a helper of it, looks for a GPU and finds none; "
                "it needs none. A rank has one: its environment states which rank it "
                "is when it starts (RANK, SLURM_PROCID, PMI_RANK). Where a function "
                "gets its rank as an argument, start each rank with `vrank emulate "
                "... -- COMMAND`"
              : "this process does not run under vrank, so there is no GPU; "
                "start "
                "it with `vrank emulate ... -- COMMAND`");
    return Error::kNoDevice;
  }
  return channel_->detached() ? Error::kNotInitialized : Error::kSuccess;
}

Error Devices::Ready() {
  VRANK_RETURN_IF_FAILED(Reachable());
  LetWokenRun(channel_);
  if (faulted()) [[unlikely]]
    return fault();
  return Count() == 0 ? Error::kNoDevice : Error::kSuccess;
}

const std::vector<int>& Devices::visible() {
  if (!visible_read_.load(std::memory_order_acquire)) [[unlikely]] {
    ApiLock lock(mutex_);
    if (channel_ != nullptr && !visible_read_.load(std::memory_order_relaxed))
      visible_ = VisibleDevices(channel_->settings(), getenv("CUDA_VISIBLE_DEVICES"));
    visible_read_.store(true, std::memory_order_release);
  }
  return visible_;
}

int Devices::NodeDevice(int device) {
  return Has(device) ? visible()[static_cast<size_t>(device)] : -1;
}

int Devices::Current() {
  return ThisThread().device;
}

Error Devices::SetCurrent(int device) {
  if (device != -1) {
    VRANK_RETURN_IF_FAILED(Ready());
    if (!Has(device))
      return Error::kInvalidDevice;
    channel_->Spend(HostCost::kAttribute);
  }
  ThisThread().device = device;
  return Error::kSuccess;
}

Error Devices::GetAttribute(int device, int attribute, int* value) {
  VRANK_RETURN_IF_FAILED(Ready());
  if (!Has(device))
    return Error::kInvalidDevice;
  const auto found =
      DeviceAttribute(channel_->settings().gpu, NodeDevice(device), attribute);
  if (!found || value == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  *value = *found;
  return Error::kSuccess;
}

}  // namespace vrank::gpu
