// CUPTI's numbers of CUDA's functions.
//
// The tables are generated from cupti_runtime_cbid.h and cupti_driver_cbid.h
// (virtual_gpu/generate/cbids.py), so that a number is NVIDIA's or does not exist.
//
// Thread rule: constant data; FindCbid builds its index at the first call.

#ifndef VRANK_VIRTUAL_GPU_API_CUPTI_CBIDS_H_
#define VRANK_VIRTUAL_GPU_API_CUPTI_CBIDS_H_

#include <cstdint>

namespace vrank::cupti {

// Indexed by cbid. Numbers that are not in use have null names.
struct CbidRow {
  const char* function;  // as the library exports it: "cudaLaunchKernel"
  const char* name;      // as cuptiGetCallbackName says it: "cudaLaunchKernel_v7000"
  bool current;          // what CUDA 13.0 exports under that name
};
extern const CbidRow kRuntimeCbids[];
extern const unsigned kRuntimeCbidCount;
extern const CbidRow kDriverCbids[];
extern const unsigned kDriverCbidCount;

// Room for a set of cbids of one domain (807 in CUDA 13.0).
inline constexpr unsigned kMaxCbids = 1024;

// The row of a number; nullptr where there is none.
const CbidRow* RowOf(bool is_driver, uint32_t cbid);

// The cbid of an exported function; 0 (CUPTI_*_TRACE_CBID_INVALID) for other names.
uint32_t FindCbid(bool is_driver, const char* function);

}  // namespace vrank::cupti

#endif  // VRANK_VIRTUAL_GPU_API_CUPTI_CBIDS_H_
