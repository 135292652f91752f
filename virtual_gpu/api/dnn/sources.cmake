# Sources of api/dnn/, relative to virtual_gpu/.
set(VRANK_GPU_DNN_SOURCES api/dnn/version.cc)
