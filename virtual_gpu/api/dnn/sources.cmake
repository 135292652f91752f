# Sources of api/dnn/, relative to virtual_gpu/.
set(VRANK_GPU_DNN_SOURCES
  api/dnn/attention.cc api/dnn/attention_kernels.cc api/dnn/backend_api.cc
  api/dnn/batch_norm.cc api/dnn/batch_norm_kernels.cc api/dnn/convolution.cc
  api/dnn/convolution_kernels.cc api/dnn/descriptor.cc api/dnn/graph_reader.cc
  api/dnn/handle.cc api/dnn/legacy_tensor.cc api/dnn/recurrent.cc
  api/dnn/recurrent_api.cc api/dnn/recurrent_kernels.cc api/dnn/refused_parts.cc
  api/dnn/structure_kernel.cc)
