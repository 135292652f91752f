// A program that traces itself through CUPTI, and what it got.
//
// It builds against NVIDIA's libcudart and libcupti as well and must pass on a real
// GPU: nothing of vrank here.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CUPTI_CONFORMANCE_TRACE_H_
#define VRANK_TESTS_VIRTUAL_GPU_CUPTI_CONFORMANCE_TRACE_H_

#include <cuda_runtime_api.h>
#include <cupti.h>

#include <cstddef>
#include <string>
#include <vector>

namespace conformance {

// A callback of the runtime domain.
struct CallbackSeen {
  CUpti_CallbackId cbid;
  CUpti_ApiCallbackSite site;
  std::string function;
  uint32_t correlation;
  uint64_t carried;  // 64 bits handed from entry to exit: the number of the call
};

struct Trace {
  std::vector<CUpti_ActivityKernel10> kernels;
  std::vector<CUpti_ActivityMemcpy6> copies;
  std::vector<CUpti_ActivityMemset4> memsets;
  std::vector<CUpti_ActivityAPI> calls;
  std::vector<CUpti_ActivitySynchronization2> waits;
  std::vector<CUpti_ActivityCudaEvent2> events;
  std::vector<CUpti_ActivityMemory4> memory;
  std::vector<CUpti_ActivityMarker2> markers;
  std::vector<std::string> marker_names;
  std::vector<CUpti_ActivityExternalCorrelation> external;
  std::vector<CallbackSeen> callbacks;
  size_t dropped = 0;
  uint64_t began = 0, ended = 0;  // cuptiGetTimestamp around the work
  uint32_t stream_id = 0;         // cuptiGetStreamIdEx of the second stream
  const void* address = nullptr;  // of the allocation
  bool nvtx = false;              // a library was named for NVTX to inject
};

// Whether there is a GPU and a CUPTI to ask.
bool CanTrace();

// The work: an allocation of 1 MiB, a memset of 4096 bytes, FillKernel and ScaleKernel
// on the legacy default stream, an event record there, a wait for it and FillKernel on
// a second stream, a copy of 8192 bytes to page-locked memory, waits for that stream
// and for the device, all in an NVTX range "work" and under external id 42.
Trace TraceTheWork();

// Counts and prints a check that failed.
void Check(bool holds, const char* what, int line);
int Failures();

}  // namespace conformance

#define CHECK_THAT(condition) conformance::Check((condition), #condition, __LINE__)
#define CHECK_OK(call) CHECK_THAT((call) == 0)

#endif  // VRANK_TESTS_VIRTUAL_GPU_CUPTI_CONFORMANCE_TRACE_H_
