// A user of CUPTI in the program: what profilers do, one step at a time.
//
//   use_cupti("open,subscribe")  the steps, each of which says what CUPTI answered;
//                                "open" opens CUPTI by its name, "exit" ends the
//                                program at once
//
// When the library is loaded it does the steps that CUPTI_USER_AT_LOAD names.

#include <cupti.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void* library = RTLD_DEFAULT;

template <typename Function>
Function Find(Function, const char* name) {
  auto found = reinterpret_cast<Function>(dlsym(library, name));
  if (found == nullptr) {
    fprintf(stderr, "no %s: %s\n", name, dlerror());
    exit(1);
  }
  return found;
}
#define CUPTI(name) Find(&name, #name)

void CUPTIAPI OnCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

size_t records_bytes = 0;

void CUPTIAPI OnRequest(uint8_t** buffer, size_t* size, size_t* most) {
  *size = 1 << 16;
  *most = 0;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *size));
}

void CUPTIAPI OnComplete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t bytes) {
  records_bytes += bytes;
  free(buffer);
}

CUptiResult Do(const std::string& step) {
  uint32_t number = 0;
  uint64_t time = 0;
  CUpti_SubscriberHandle subscriber = nullptr;
  if (step == "version")
    return CUPTI(cuptiGetVersion)(&number);
  if (step == "timestamp")
    return CUPTI(cuptiGetTimestamp)(&time);
  if (step == "subscribe")
    return CUPTI(cuptiSubscribe)(&subscriber, OnCallback, nullptr);
  if (step == "register")
    return CUPTI(cuptiActivityRegisterCallbacks)(OnRequest, OnComplete);
  if (step == "enable")
    return CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (step == "disable")
    return CUPTI(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (step.rfind("disable-", 0) == 0)  // CUpti_ActivityKind, by value
    return CUPTI(cuptiActivityDisable)(
        static_cast<CUpti_ActivityKind>(std::stoi(step.substr(strlen("disable-")))));
  if (step == "flush")
    return CUPTI(cuptiActivityFlushAll)(0);
  if (step == "push")
    return CUPTI(cuptiActivityPushExternalCorrelationId)(
        CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 7);
  if (step == "exit")
    _Exit(0);
  if (step == "finalize")
    return CUPTI(cuptiFinalize)();
  fprintf(stderr, "no step %s\n", step.c_str());
  exit(1);
}

void DoAll(std::string steps) {
  while (!steps.empty()) {
    const size_t comma = steps.find(',');
    std::string step = steps.substr(0, comma);
    steps = comma == std::string::npos ? "" : steps.substr(comma + 1);
    if (step == "open") {
      library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
      continue;
    }
    printf("%s: %d\n", step.c_str(), static_cast<int>(Do(step)));
    fflush(stdout);
  }
}

__attribute__((constructor)) void AtLoad() {
  if (const char* steps = getenv("CUPTI_USER_AT_LOAD"))
    DoAll(steps);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void use_cupti(const char* steps) {
  DoAll(steps);
}
