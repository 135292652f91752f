// A list of beginnings: one row serves a function, its asynchronous and 2D variants,
// and the driver's function of the same name.

#include "tracer/cupti/call_filter.h"

namespace vrank::tracer {
namespace {

// Without "cuda" or "cu".
constexpr std::string_view kBeginnings[] = {
    "CtxSynchronize",
    "DeviceReset",
    "DeviceSynchronize",
    "EventQuery",
    "EventRecord",
    "EventSynchronize",
    "Free",
    "GraphExecDestroy",
    "GraphInstantiate",
    "GraphLaunch",
    "HostAlloc",
    "HostRegister",
    "HostUnregister",
    "Launch",
    "Malloc",
    "MemAlloc",
    "MemCreate",
    "MemFree",
    "MemHostAlloc",
    "MemHostRegister",
    "MemHostUnregister",
    "MemMap",
    "MemPool",
    "MemPrefetch",
    "MemRelease",
    "MemUnmap",
    "Memcpy",
    "Memset",
    "StreamAddCallback",
    "StreamBatchMemOp",
    "StreamBeginCapture",
    "StreamCreate",
    "StreamDestroy",
    "StreamEndCapture",
    "StreamQuery",
    "StreamSynchronize",
    "StreamWait",
    "StreamWriteValue",
    "ThreadSynchronize",
};

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::string_view WithoutVersion(std::string_view function) {
  size_t digits = function.size();
  while (digits > 0 && IsDigit(function[digits - 1]))
    --digits;
  const bool versioned =
      digits < function.size() && digits >= 2 && function.substr(digits - 2, 2) == "_v";
  return versioned ? function.substr(0, digits - 2) : function;
}

bool IsWorthARecord(std::string_view function) {
  for (const std::string_view family : {"cuda", "cu"}) {
    if (function.substr(0, family.size()) != family)
      continue;
    function.remove_prefix(family.size());
    for (const std::string_view beginning : kBeginnings)
      if (function.substr(0, beginning.size()) == beginning)
        return true;
    return false;
  }
  return false;
}

}  // namespace vrank::tracer
