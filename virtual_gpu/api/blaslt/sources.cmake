# Sources of api/blaslt/, relative to virtual_gpu/.
set(VRANK_GPU_BLASLT_SOURCES
  api/blaslt/descriptor_api.cc
  api/blaslt/lt_descriptors.cc
  api/blaslt/lt_matmul.cc
  api/blaslt/matmul_api.cc
  ${VRANK_GPU_GEMM_SOURCES})
