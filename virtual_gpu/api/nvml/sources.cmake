# Sources of api/nvml/, relative to virtual_gpu/.
set(VRANK_GPU_NVML_SOURCES
  api/nvml/device_api.cc
  api/nvml/nvlink_api.cc
  api/nvml/nvml_state.cc
  api/nvml/system_api.cc)
