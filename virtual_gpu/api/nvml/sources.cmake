# Sources of api/nvml/, relative to virtual_gpu/.
set(VRANK_GPU_NVML_SOURCES)
