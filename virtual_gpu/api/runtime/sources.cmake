# Sources of api/runtime/, relative to virtual_gpu/.
set(VRANK_GPU_RUNTIME_SOURCES)
