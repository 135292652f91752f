# Sources of api/dnn/, relative to virtual_gpu/.
set(VRANK_GPU_DNN_SOURCES
  api/dnn/attention.cc api/dnn/attention_kernels.cc api/dnn/backend_api.cc
  api/dnn/descriptor.cc api/dnn/handle.cc api/dnn/refused_parts.cc)
