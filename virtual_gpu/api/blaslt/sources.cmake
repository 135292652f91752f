# Sources of api/blaslt/, relative to virtual_gpu/.
set(VRANK_GPU_BLASLT_SOURCES)
