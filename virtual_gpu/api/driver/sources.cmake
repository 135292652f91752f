# Sources of api/driver/, relative to virtual_gpu/.
set(VRANK_GPU_DRIVER_SOURCES
  api/driver/capture.cc
  api/driver/device.cc
  api/driver/entry.cc
  api/driver/error.cc
  api/driver/function.cc
  api/driver/graph.cc
  api/driver/graph_exec.cc
  api/driver/graph_nodes.cc
  api/driver/graph_parameters.cc
  api/driver/injection.cc
  api/driver/launch.cc
  api/driver/mapping.cc
  api/driver/memory.cc
  api/driver/module.cc
  api/driver/proc_address.cc
  api/driver/stream.cc)
