# Sources of api/driver/, relative to virtual_gpu/.
set(VRANK_GPU_DRIVER_SOURCES
  api/driver/device.cc
  api/driver/entry.cc
  api/driver/error.cc
  api/driver/injection.cc
  api/driver/launch.cc
  api/driver/mapping.cc
  api/driver/memory.cc
  api/driver/proc_address.cc
  api/driver/stream.cc)
