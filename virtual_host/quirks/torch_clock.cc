// Interposed: what torch.profiler makes times of. It stamps host events with the
// processor's time stamp counter and converts the stamps at the end, by
// c10::ApproximateClockToUnixTimeConverter (c10/util/ApproximateClock.h in
// PyTorch 2.11), whose line between two readings of both clocks is right in real time
// only. A converter that is made while a profiler of the GPU listens converts by the
// steps of the virtual clock (clock_log.h) instead; all others are PyTorch's own. The
// trace gets a member "vrank" that says whose times they are: nothing else in it does.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/guest/export.h"
#include "base/guest/raw_log.h"
#include "base/guest/time_stamp.h"
#include "virtual_host/channel/clock_log.h"
#include "virtual_host/process/process.h"
#include "virtual_host/process/virtual_clock.h"
#include "virtual_host/quirks/torch_library.h"

// Named as PyTorch names it; its objects are made and read by PyTorch's code.
namespace c10 {

class ApproximateClockToUnixTimeConverter {
 public:
  VRANK_EXPORT ApproximateClockToUnixTimeConverter();
  VRANK_EXPORT std::function<int64_t(uint64_t)> makeConverter();
};

}  // namespace c10

namespace vrank::host {
namespace {

using Function = std::function<int64_t(uint64_t)>;

// Before the trace that the converter is for is written.
void MarkTrace(ProfiledGpu* gpu) {
  // torch::autograd::profiler::addMetadataJson(key, value), which takes std::string.
  static const auto add =
      Theirs<void (*)(const std::string& key, const std::string& json)>(
          "_ZN5torch8autograd8profiler15addMetadataJsonERKNSt7__cxx1112basic_stringIcSt"
          "11char_traitsIcESaIcEEES9_",
          "libtorch_cpu.so");
  if (add != nullptr)
    add("vrank", gpu->DescribeTimeSources());
  else
    RawLog("virtual_host",
           "this PyTorch takes no notes for a trace of torch.profiler: nothing in it "
           "will say that its times are virtual");
}

// The converter that the log is kept for.
std::atomic<const void*> logged{nullptr};

}  // namespace
}  // namespace vrank::host

namespace c10 {

using vrank::host::GuestChannel;
using vrank::host::ProcessChannel;

ApproximateClockToUnixTimeConverter::ApproximateClockToUnixTimeConverter() {
  static const auto construct = vrank::host::Theirs<void (*)(void*)>(
      "_ZN3c1035ApproximateClockToUnixTimeConverterC1Ev", "libc10.so");
  if (construct != nullptr)
    construct(this);
  GuestChannel* const channel = ProcessChannel();
  if (channel != nullptr && channel->profiled_gpu() != nullptr &&
      vrank::TimeStampCount() != 0) {
    channel->LogClock();
    vrank::host::logged.store(this);
  }
}

std::function<int64_t(uint64_t)> ApproximateClockToUnixTimeConverter::makeConverter() {
  GuestChannel* const channel = ProcessChannel();
  const void* self = this;
  if (channel != nullptr &&
      vrank::host::logged.compare_exchange_strong(self, nullptr)) {
    if (vrank::ProfiledGpu* const gpu = channel->profiled_gpu())
      vrank::host::MarkTrace(gpu);
    const auto start =
        vrank::host::ClockStart(channel->settings(), CLOCK_REALTIME).value();
    std::function<int64_t(uint64_t)> converter;
    if (!channel->clock_log().Finish(start.nanoseconds(), &converter))
      vrank::RawLog("virtual_host",
                    "torch.profiler's window has more than %zu steps of the clock; "
                    "what the host did later has the time of the last one",
                    vrank::host::ClockLog::kMostSteps);
    return converter;
  }
  // As a function that returns an object takes its arguments.
  static const auto convert = vrank::host::Theirs<vrank::host::Function (*)(void*)>(
      "_ZN3c1035ApproximateClockToUnixTimeConverter13makeConverterEv", "libc10.so");
  return convert == nullptr ? nullptr : convert(this);
}

}  // namespace c10
