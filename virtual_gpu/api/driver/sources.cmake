# Sources of api/driver/, relative to virtual_gpu/.
set(VRANK_GPU_DRIVER_SOURCES
  api/driver/device.cc
  api/driver/entry.cc)
