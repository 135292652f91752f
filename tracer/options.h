// What the environment says to the tracer.
//
//   VRANK_TRACE_FILE=PATH      where the raw trace goes; unset or empty: no tracing.
//   The
//                              file must not have anything in it yet, and one process
//                              writes it: others that find it taken go on untraced.
//   VRANK_TRACE_REQUIRED=1     a process that should be traced and cannot be ends with
//                              exit code 97; otherwise it goes on untraced
//   VRANK_TRACE_CUPTI=PATH     the libcupti to use; unset: libcupti.so.13 as the loader
//                              finds it, then libcupti.so.12
//
// The tracer itself gets into a process by
//
//   CUDA_INJECTION64_PATH=/abs/libvrank_tracer.so   the driver starts it in cuInit
//   LD_PRELOAD=... /abs/libvrank_tracer.so          so that libnccl finds it by name
//   NVTX_INJECTION64_PATH=/abs/libvrank_tracer.so   NVTX ranges, on a real GPU (under
//                                                   emulation libvrank_host.so has
//                                                   them)
//
// of which the first is enough for everything but NCCL's operations and NVTX.
//
// Thread rule: plain functions and values.

#ifndef VRANK_TRACER_OPTIONS_H_
#define VRANK_TRACER_OPTIONS_H_

#include <string>

namespace vrank::tracer {

inline constexpr int kExitUntraced = 97;

struct Options {
  std::string file;
  std::string cupti;
  bool required = false;
};

Options OptionsFromEnvironment();

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_OPTIONS_H_
