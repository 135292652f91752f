# Sources of core/, relative to virtual_gpu/.
set(VRANK_GPU_CORE_SOURCES)
