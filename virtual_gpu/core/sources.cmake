# Sources of core/, relative to virtual_gpu/.
set(VRANK_GPU_CORE_SOURCES
  core/address_space.cc
  core/content_map.cc
  core/contents.cc
  core/device_memory.cc
  core/host_functions.cc
  core/host_memory.cc
  core/lanes.cc
  core/obligations.cc
  core/pool.cc
  core/process_gpu_copies.cc
  core/process_gpu_devices.cc
  core/process_gpu_events.cc
  core/process_gpu_memory.cc
  core/process_gpu_neighbours.cc
  core/process_gpu_streams.cc
  core/process_gpu_work.cc)
