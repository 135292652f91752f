# Sources of api/nvml/, relative to virtual_gpu/. device_attributes.cc is pure
# and small, so libnvidia-ml has its own copy.
set(VRANK_GPU_NVML_SOURCES
  api/nvml/device_api.cc
  api/nvml/nvlink_api.cc
  api/nvml/nvml_state.cc
  api/nvml/system_api.cc
  core/device_attributes.cc)
