// The tracer's three exports: how the driver, NVTX and libnccl find it.

#include <dlfcn.h>

#include "base/guest/export.h"
#include "base/guest/raw_log.h"
#include "tracer/nccl_sink.h"
#include "tracer/options.h"
#include "tracer/tracer.h"

namespace {

using vrank::tracer::Tracer;

// CUPTI 13.0.0 takes NVTX's tables and then leaves them empty (NVIDIA/NVTX#125).
constexpr uint32_t kCuptiWithoutNvtx = 130000;

}  // namespace

// CUDA's driver calls this in cuInit if CUDA_INJECTION64_PATH names this library.
// 1: all is well. 0 would make the driver go on without us, which is for Start to say.
extern "C" VRANK_EXPORT int InitializeInjection() {
  Tracer::OfProcess().Start(vrank::tracer::OptionsFromEnvironment());
  return 1;
}

// NVTX calls this at its first use if NVTX_INJECTION64_PATH names this library. CUPTI
// itself turns ranges into records; 0: NVTX goes on without a tool.
extern "C" VRANK_EXPORT int InitializeInjectionNvtx2(void* get_export_table) {
  const vrank::tracer::Options options = vrank::tracer::OptionsFromEnvironment();
  vrank::tracer::CuptiLibrary cupti;
  std::string why;
  uint32_t version = 0;
  if (options.file.empty() || !cupti.Load(options.cupti, &why) ||
      cupti.cuptiGetVersion(&version) != CUPTI_SUCCESS)
    return 0;
  if (version == kCuptiWithoutNvtx) {
    vrank::RawLog("tracer",
                  "CUPTI 13.0.0 loses NVTX ranges; the trace goes without them, use "
                  "CUPTI 13.0.1 or later");
    return 0;
  }
  using Initialize = int (*)(void*);
  auto initialize =
      reinterpret_cast<Initialize>(dlsym(cupti.handle, "InitializeInjectionNvtx2"));
  return initialize == nullptr ? 0 : initialize(get_export_table);
}

// For the NCCL stand-in (base/guest/nccl_trace.h), which asks before or after the
// tracer has started. nullptr: this process is not to be traced.
extern "C" VRANK_EXPORT vrank::NcclTrace* vrank_nccl_trace(uint32_t abi) {
  if (vrank::tracer::OptionsFromEnvironment().file.empty())
    return nullptr;
  if (abi != vrank::NcclTrace::kAbi) {
    vrank::RawLog(
        "tracer",
        "libnccl.so.2 is not the one of this vrank; its operations are not in "
        "the trace");
    return nullptr;
  }
  static vrank::tracer::NcclSink* const sink =
      new vrank::tracer::NcclSink(&Tracer::OfProcess());
  return sink;
}
