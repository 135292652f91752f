#include "gpu_hold/hold_driver.h"

#include <cuda.h>

#include <array>
#include <cstring>

#include "gpu_hold/driver_library.h"
#include "gpu_hold/hold_shape.h"

namespace vrank::hold {
namespace {

// What is used of the driver, by the names that it exports.
struct CudaApi {
  CUresult (*module_load)(CUmodule*, const void*) = nullptr;
  CUresult (*get_function)(CUfunction*, CUmodule, const char*) = nullptr;
  CUresult (*set_attribute)(CUfunction, CUfunction_attribute, int) = nullptr;
  CUresult (*load_function)(CUfunction) = nullptr;
  CUresult (*host_alloc)(void**, size_t, unsigned) = nullptr;
  CUresult (*host_free)(void*) = nullptr;
  CUresult (*alloc)(CUdeviceptr*, size_t) = nullptr;
  CUresult (*set)(CUdeviceptr, unsigned, size_t) = nullptr;
  CUresult (*free)(CUdeviceptr) = nullptr;
  CUresult (*device_pointer)(CUdeviceptr*, void*, unsigned) = nullptr;
  CUresult (*launch)(const CUlaunchConfig*, CUfunction, void**, void**) = nullptr;
  CUresult (*error_name)(CUresult, const char**) = nullptr;
};

bool FindApi(CudaApi* api, std::string* error) {
  const DriverLibrary library(error);
  return library.Find("cuModuleLoadData", &api->module_load) &&
         library.Find("cuModuleGetFunction", &api->get_function) &&
         library.Find("cuFuncSetAttribute", &api->set_attribute) &&
         library.Find("cuFuncLoad", &api->load_function) &&
         library.Find("cuMemHostAlloc", &api->host_alloc) &&
         library.Find("cuMemFreeHost", &api->host_free) &&
         library.Find("cuMemAlloc_v2", &api->alloc) &&
         library.Find("cuMemsetD32_v2", &api->set) &&
         library.Find("cuMemFree_v2", &api->free) &&
         library.Find("cuMemHostGetDevicePointer_v2", &api->device_pointer) &&
         library.Find("cuLaunchKernelEx", &api->launch) &&
         library.Find("cuGetErrorName", &api->error_name);
}

class GpuHoldDriver final : public HoldDriver {
 public:
  bool Load(std::string* error) {
    if (HoldKernelImage().empty()) {
      *error = "this build has no hold kernels: there was no nvcc";
      return false;
    }
    if (!FindApi(&api_, error))
      return false;
    CUmodule module = nullptr;
    if (!Check(api_.module_load(&module, HoldKernelImage().data()), "cuModuleLoadData",
               error))
      return false;
    for (uint32_t i = 0; i < functions_.size(); ++i) {
      const char* const name = KernelName(static_cast<HoldOperation>(i));
      // Above 48 KiB a kernel has to be allowed to (CUDA programming guide).
      if (!Check(api_.get_function(&functions_[i], module, name), name, error) ||
          !Check(api_.set_attribute(functions_[i],
                                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(ShapeOf({}).shared_bytes)),
                 "cuFuncSetAttribute", error) ||
          !Check(api_.load_function(functions_[i]), "cuFuncLoad", error))
        return false;
    }
    return true;
  }

  HoldRing* NewRing() override {
    void* memory = nullptr;
    if (api_.host_alloc(&memory, sizeof(HoldRing),
                        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) !=
        CUDA_SUCCESS)
      return nullptr;
    auto* const ring = new (memory) HoldRing{};
    CUdeviceptr counters = 0;
    const bool made = api_.alloc(&counters, sizeof(HoldCounters)) == CUDA_SUCCESS;
    ring->counters = reinterpret_cast<HoldCounters*>(counters);
    if (made &&
        api_.set(counters, 0, sizeof(HoldCounters) / sizeof(uint32_t)) == CUDA_SUCCESS)
      return ring;
    FreeRing(ring);
    return nullptr;
  }
  void FreeRing(HoldRing* ring) override {
    if (ring->counters != nullptr)
      api_.free(reinterpret_cast<CUdeviceptr>(ring->counters));
    api_.host_free(ring);
  }

  bool Launch(HoldRing* ring, const HoldLaunch& launch, std::string* error) override {
    CUdeviceptr on_device = 0;
    if (!Check(api_.device_pointer(&on_device, ring, 0), "cuMemHostGetDevicePointer",
               error))
      return false;
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = launch.shape.cluster;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    CUlaunchConfig config{};
    config.gridDimX = launch.shape.ctas;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = launch.shape.threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = launch.shape.shared_bytes;
    config.hStream = static_cast<CUstream>(launch.stream);
    config.attrs = &cluster;
    config.numAttrs = launch.shape.cluster > 1 ? 1 : 0;
    HoldParameters given = launch.parameters;
    HoldCounters* counters = ring->counters;
    void* parameters[] = {&on_device, &counters, &given};
    return Check(api_.launch(&config, functions_[static_cast<size_t>(launch.operation)],
                             parameters, nullptr),
                 "cuLaunchKernelEx", error);
  }

 private:
  bool Check(CUresult result, const char* what, std::string* error) const {
    if (result == CUDA_SUCCESS)
      return true;
    const char* name = nullptr;
    api_.error_name(result, &name);
    *error = std::string(what) + ": " + (name != nullptr ? name : "unknown error");
    return false;
  }

  CudaApi api_;
  std::array<CUfunction, static_cast<size_t>(HoldOperation::kCount)> functions_{};
};

}  // namespace

std::unique_ptr<HoldDriver> MakeGpuHoldDriver(std::string* error) {
  auto driver = std::make_unique<GpuHoldDriver>();
  if (!driver->Load(error))
    return nullptr;
  return driver;
}

}  // namespace vrank::hold
