# Sources of api/cupti/, relative to virtual_gpu/. device_attributes.cc is pure and small,
# so libcupti has its own copy. The table of cbids is generated (vrank_cbids).
set(VRANK_GPU_CUPTI_SOURCES
  api/cupti/activity_api.cc
  api/cupti/buffers.cc
  api/cupti/callback_api.cc
  api/cupti/cbids.cc
  api/cupti/identity_api.cc
  api/cupti/kinds.cc
  api/cupti/listener.cc
  api/cupti/nvtx_api.cc
  api/cupti/profiler.cc
  api/cupti/records.cc
  api/cupti/registry.cc
  api/cupti/result_api.cc
  api/cupti/selection.cc
  api/cupti/settings_api.cc
  api/cupti/subscriber.cc
  core/device_attributes.cc)
