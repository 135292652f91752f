# Sources of api/blas/, relative to virtual_gpu/.
set(VRANK_GPU_BLAS_SOURCES)
