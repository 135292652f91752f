# Sources of api/blas/, relative to virtual_gpu/, with those shared with api/blaslt/.
set(VRANK_GPU_GEMM_SOURCES
  api/gemm/blas_status.cc
  api/gemm/element_types.cc
  api/gemm/gemm_call.cc)
set(VRANK_GPU_BLAS_SOURCES
  api/blas/blas_handle.cc
  api/blas/gemm_api.cc
  api/blas/handle_api.cc
  api/blas/vector_api.cc
  ${VRANK_GPU_GEMM_SOURCES})
