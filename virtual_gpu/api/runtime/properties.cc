// cudart, chapter "Device management": cudaGetDeviceProperties with CUDA 13's
// structure.
//
// A second CUDA major has a second structure and a second file like this one.

#include <cstring>

#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/core/device_attributes.h"

using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::Leave;

namespace {

struct Field {
  int cudaDeviceProp::*member;
  cudaDeviceAttr attribute;
};

// The members that are one attribute each.
constexpr Field kFields[] = {
    {&cudaDeviceProp::regsPerBlock, cudaDevAttrMaxRegistersPerBlock},
    {&cudaDeviceProp::warpSize, cudaDevAttrWarpSize},
    {&cudaDeviceProp::maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock},
    {&cudaDeviceProp::major, cudaDevAttrComputeCapabilityMajor},
    {&cudaDeviceProp::minor, cudaDevAttrComputeCapabilityMinor},
    {&cudaDeviceProp::multiProcessorCount, cudaDevAttrMultiProcessorCount},
    {&cudaDeviceProp::integrated, cudaDevAttrIntegrated},
    {&cudaDeviceProp::canMapHostMemory, cudaDevAttrCanMapHostMemory},
    {&cudaDeviceProp::maxTexture1D, cudaDevAttrMaxTexture1DWidth},
    {&cudaDeviceProp::maxTexture1DMipmap, cudaDevAttrMaxTexture1DMipmappedWidth},
    {&cudaDeviceProp::maxTextureCubemap, cudaDevAttrMaxTextureCubemapWidth},
    {&cudaDeviceProp::maxSurface1D, cudaDevAttrMaxSurface1DWidth},
    {&cudaDeviceProp::maxSurfaceCubemap, cudaDevAttrMaxSurfaceCubemapWidth},
    {&cudaDeviceProp::concurrentKernels, cudaDevAttrConcurrentKernels},
    {&cudaDeviceProp::ECCEnabled, cudaDevAttrEccEnabled},
    {&cudaDeviceProp::pciBusID, cudaDevAttrPciBusId},
    {&cudaDeviceProp::pciDeviceID, cudaDevAttrPciDeviceId},
    {&cudaDeviceProp::pciDomainID, cudaDevAttrPciDomainId},
    {&cudaDeviceProp::tccDriver, cudaDevAttrTccDriver},
    {&cudaDeviceProp::asyncEngineCount, cudaDevAttrAsyncEngineCount},
    {&cudaDeviceProp::unifiedAddressing, cudaDevAttrUnifiedAddressing},
    {&cudaDeviceProp::memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth},
    {&cudaDeviceProp::l2CacheSize, cudaDevAttrL2CacheSize},
    {&cudaDeviceProp::persistingL2CacheMaxSize, cudaDevAttrMaxPersistingL2CacheSize},
    {&cudaDeviceProp::maxThreadsPerMultiProcessor,
     cudaDevAttrMaxThreadsPerMultiProcessor},
    {&cudaDeviceProp::streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported},
    {&cudaDeviceProp::globalL1CacheSupported, cudaDevAttrGlobalL1CacheSupported},
    {&cudaDeviceProp::localL1CacheSupported, cudaDevAttrLocalL1CacheSupported},
    {&cudaDeviceProp::regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor},
    {&cudaDeviceProp::managedMemory, cudaDevAttrManagedMemory},
    {&cudaDeviceProp::isMultiGpuBoard, cudaDevAttrIsMultiGpuBoard},
    {&cudaDeviceProp::multiGpuBoardGroupID, cudaDevAttrMultiGpuBoardGroupID},
    {&cudaDeviceProp::hostNativeAtomicSupported, cudaDevAttrHostNativeAtomicSupported},
    {&cudaDeviceProp::pageableMemoryAccess, cudaDevAttrPageableMemoryAccess},
    {&cudaDeviceProp::concurrentManagedAccess, cudaDevAttrConcurrentManagedAccess},
    {&cudaDeviceProp::computePreemptionSupported,
     cudaDevAttrComputePreemptionSupported},
    {&cudaDeviceProp::canUseHostPointerForRegisteredMem,
     cudaDevAttrCanUseHostPointerForRegisteredMem},
    {&cudaDeviceProp::cooperativeLaunch, cudaDevAttrCooperativeLaunch},
    {&cudaDeviceProp::maxBlocksPerMultiProcessor,
     cudaDevAttrMaxBlocksPerMultiprocessor},
    {&cudaDeviceProp::accessPolicyMaxWindowSize, cudaDevAttrMaxAccessPolicyWindowSize},
    {&cudaDeviceProp::hostRegisterSupported, cudaDevAttrHostRegisterSupported},
    {&cudaDeviceProp::memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported},
    {&cudaDeviceProp::ipcEventSupported, cudaDevAttrIpcEventSupport},
    {&cudaDeviceProp::clusterLaunch, cudaDevAttrClusterLaunch},
    {&cudaDeviceProp::deviceNumaId, cudaDevAttrNumaId},
    {&cudaDeviceProp::hostNumaId, cudaDevAttrHostNumaId},
};

int Attribute(Gpu& gpu, int device, cudaDeviceAttr attribute) {
  int value = 0;
  // The attributes named here all exist.
  [[maybe_unused]] const Error error =
      gpu.GetDeviceAttribute(device, attribute, &value);
  return value;
}

void FillArrays(Gpu& gpu, int device, cudaDeviceProp* properties) {
  auto fill = [&](int* to, std::initializer_list<cudaDeviceAttr> attributes) {
    for (cudaDeviceAttr attribute : attributes)
      *to++ = Attribute(gpu, device, attribute);
  };
  fill(properties->maxThreadsDim,
       {cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ});
  fill(properties->maxGridSize,
       {cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ});
  fill(properties->maxTexture2D,
       {cudaDevAttrMaxTexture2DWidth, cudaDevAttrMaxTexture2DHeight});
  fill(properties->maxTexture2DMipmap,
       {cudaDevAttrMaxTexture2DMipmappedWidth, cudaDevAttrMaxTexture2DMipmappedHeight});
  fill(properties->maxTexture2DLinear,
       {cudaDevAttrMaxTexture2DLinearWidth, cudaDevAttrMaxTexture2DLinearHeight,
        cudaDevAttrMaxTexture2DLinearPitch});
  fill(properties->maxTexture2DGather,
       {cudaDevAttrMaxTexture2DGatherWidth, cudaDevAttrMaxTexture2DGatherHeight});
  fill(properties->maxTexture3D,
       {cudaDevAttrMaxTexture3DWidth, cudaDevAttrMaxTexture3DHeight,
        cudaDevAttrMaxTexture3DDepth});
  fill(properties->maxTexture3DAlt,
       {cudaDevAttrMaxTexture3DWidthAlt, cudaDevAttrMaxTexture3DHeightAlt,
        cudaDevAttrMaxTexture3DDepthAlt});
  fill(properties->maxTexture1DLayered,
       {cudaDevAttrMaxTexture1DLayeredWidth, cudaDevAttrMaxTexture1DLayeredLayers});
  fill(properties->maxTexture2DLayered,
       {cudaDevAttrMaxTexture2DLayeredWidth, cudaDevAttrMaxTexture2DLayeredHeight,
        cudaDevAttrMaxTexture2DLayeredLayers});
  fill(properties->maxTextureCubemapLayered,
       {cudaDevAttrMaxTextureCubemapLayeredWidth,
        cudaDevAttrMaxTextureCubemapLayeredLayers});
  fill(properties->maxSurface2D,
       {cudaDevAttrMaxSurface2DWidth, cudaDevAttrMaxSurface2DHeight});
  fill(properties->maxSurface3D,
       {cudaDevAttrMaxSurface3DWidth, cudaDevAttrMaxSurface3DHeight,
        cudaDevAttrMaxSurface3DDepth});
  fill(properties->maxSurface1DLayered,
       {cudaDevAttrMaxSurface1DLayeredWidth, cudaDevAttrMaxSurface1DLayeredLayers});
  fill(properties->maxSurface2DLayered,
       {cudaDevAttrMaxSurface2DLayeredWidth, cudaDevAttrMaxSurface2DLayeredHeight,
        cudaDevAttrMaxSurface2DLayeredLayers});
  fill(properties->maxSurfaceCubemapLayered,
       {cudaDevAttrMaxSurfaceCubemapLayeredWidth,
        cudaDevAttrMaxSurfaceCubemapLayeredLayers});
}

}  // namespace

VRANK_CUDART cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties,
                                                 int device) {
  if (properties == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    VRANK_RETURN_IF_FAILED(gpu.Ready());
    if (device < 0 || device >= gpu.DeviceCount())
      return Error::kInvalidDevice;
    const vrank::protocol::Settings& settings = gpu.channel()->settings();
    *properties = {};
    for (const Field& field : kFields)
      properties->*field.member = Attribute(gpu, device, field.attribute);
    FillArrays(gpu, device, properties);
    std::memcpy(properties->name, settings.gpu.name, sizeof settings.gpu.name);
    unsigned char uuid[16];
    vrank::gpu::DeviceUuid(settings, gpu.NodeDevice(device), uuid);
    std::memcpy(properties->uuid.bytes, uuid, sizeof uuid);
    properties->totalGlobalMem = settings.gpu.memory_bytes;
    properties->sharedMemPerBlock = settings.gpu.shared_per_block;
    properties->sharedMemPerBlockOptin = settings.gpu.shared_per_block_optin;
    properties->sharedMemPerMultiprocessor = settings.gpu.shared_per_multiprocessor;
    properties->reservedSharedMemPerBlock = static_cast<size_t>(
        Attribute(gpu, device, cudaDevAttrReservedSharedMemoryPerBlock));
    properties->totalConstMem = settings.gpu.constant_bytes;
    properties->memPitch =
        static_cast<size_t>(Attribute(gpu, device, cudaDevAttrMaxPitch));
    properties->textureAlignment =
        static_cast<size_t>(Attribute(gpu, device, cudaDevAttrTextureAlignment));
    properties->texturePitchAlignment =
        static_cast<size_t>(Attribute(gpu, device, cudaDevAttrTexturePitchAlignment));
    properties->surfaceAlignment =
        static_cast<size_t>(Attribute(gpu, device, cudaDevAttrSurfaceAlignment));
    return Error::kSuccess;
  });
}
