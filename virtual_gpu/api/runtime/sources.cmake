# Sources of api/runtime/, relative to virtual_gpu/. device_attributes.cc is pure and
# small, so libcudart has its own copy.
set(VRANK_GPU_RUNTIME_SOURCES
  api/runtime/capture.cc
  api/runtime/copy.cc
  api/runtime/device.cc
  api/runtime/entry.cc
  api/runtime/error.cc
  api/runtime/event.cc
  api/runtime/function.cc
  api/runtime/graph.cc
  api/runtime/graph_exec.cc
  api/runtime/graph_nodes.cc
  api/runtime/graph_objects.cc
  api/runtime/graph_parameters.cc
  api/runtime/ipc.cc
  api/runtime/launch.cc
  api/runtime/memory.cc
  api/runtime/pool.cc
  api/runtime/properties.cc
  api/runtime/registration.cc
  api/runtime/registry.cc
  api/runtime/stream.cc
  api/runtime/symbol.cc
  api/runtime/version.cc
  core/device_attributes.cc)
