// Records of launches: kernels, GEMMs and host functions, each with its note for a
// profiler.
//
// Owns the host functions that have been issued. What launches do to memory is
// kernel_effects.h's.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_LAUNCH_RECORDS_H_
#define VRANK_VIRTUAL_GPU_CORE_LAUNCH_RECORDS_H_

#include <cstdint>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/graph_types.h"
#include "virtual_gpu/core/host_functions.h"
#include "virtual_gpu/core/kernel_effects.h"
#include "virtual_gpu/core/kernel_names.h"
#include "virtual_gpu/core/memory_accounting.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

class LaunchRecords {
 public:
  LaunchRecords(Channel* channel, KernelNames& kernels, KernelEffects& effects,
                MemoryAccounting& accounting, Obligations& obligations,
                ActivityNotes& notes)
      : channel_(channel),
        kernels_(kernels),
        effects_(effects),
        accounting_(accounting),
        obligations_(obligations),
        notes_(notes),
        host_functions_(channel, &obligations) {}

  // `flags`: Record::flags.
  void EmitKernel(const Stream& stream, const KernelLaunch& launch, uint16_t flags);
  void EmitGemm(const Stream& stream, const GemmLaunch& launch, uint16_t flags);
  // It runs at the time that the emulator answers.
  void EmitHostFunction(Stream* stream, const HostCallParameters& what, uint16_t flags);

 private:
  Channel* const channel_;
  KernelNames& kernels_;
  KernelEffects& effects_;
  MemoryAccounting& accounting_;
  Obligations& obligations_;
  ActivityNotes& notes_;
  HostFunctions host_functions_;
  uint64_t host_functions_issued_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_LAUNCH_RECORDS_H_
