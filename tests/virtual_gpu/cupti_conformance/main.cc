// CUPTI's documented rules, held against a program that traces itself. Exit status: 0
// all hold, 1 some do not, 77 there is no GPU or no CUPTI to ask.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/virtual_gpu/cupti_conformance/trace.h"

namespace conformance {
namespace {

// The record of the call with this correlation id.
const CUpti_ActivityAPI* CallOf(const Trace& trace, uint32_t correlation) {
  for (const CUpti_ActivityAPI& call : trace.calls)
    if (call.correlationId == correlation)
      return &call;
  return nullptr;
}

// What nvcc makes of <<<>>> differs between its versions.
bool IsLaunch(CUpti_CallbackId cbid) {
  return cbid == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000 ||
         cbid == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060 ||
         cbid == CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000;
}

// CUpti_ActivityKernel10: "a unique correlation ID that is identical to the correlation
// ID in the driver or runtime API activity record that launched the kernel".
void KernelsBelongToTheirLaunches(const Trace& trace) {
  CHECK_THAT(trace.kernels.size() == 3);
  auto kernels = trace.kernels;
  std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
    return a.correlationId < b.correlationId;  // in the order of the launches
  });
  const char* const names[] = {"FillKernel", "ScaleKernel", "FillKernel"};
  for (size_t i = 0; i < kernels.size() && i < 3; ++i) {
    const auto& kernel = kernels[i];
    CHECK_THAT(std::strstr(kernel.name, names[i]) != nullptr);
    CHECK_THAT(kernel.gridX == (i == 1 ? 4 : 2));
    CHECK_THAT(kernel.blockX == (i == 1 ? 32 : 64));
    const CUpti_ActivityAPI* launch = CallOf(trace, kernel.correlationId);
    CHECK_THAT(launch != nullptr);
    if (launch == nullptr)
      continue;
    CHECK_THAT(IsLaunch(launch->cbid));
    CHECK_THAT(launch->start <= kernel.start);
    CHECK_THAT(kernel.start <= kernel.end);
    CHECK_THAT(launch->returnValue == cudaSuccess);
  }
  if (kernels.size() != 3)
    return;
  CHECK_THAT(kernels[0].end <= kernels[1].start && "one stream runs in order");
  CHECK_THAT(kernels[1].end <= kernels[2].start && "the second stream waited");
  CHECK_THAT(kernels[0].streamId == 7);
  CHECK_THAT(kernels[2].streamId == trace.stream_id);
}

void CopiesAndMemsetsSayWhatTheyMoved(const Trace& trace) {
  CHECK_THAT(trace.copies.size() == 1);
  for (const auto& copy : trace.copies) {
    CHECK_THAT(copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
    CHECK_THAT(copy.dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
    CHECK_THAT(copy.bytes == 8192);
    CHECK_THAT(copy.flags == CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
    CHECK_THAT(CallOf(trace, copy.correlationId) != nullptr);
  }
  CHECK_THAT(trace.memsets.size() == 1);
  for (const auto& memset : trace.memsets)
    CHECK_THAT(memset.bytes == 4096 && memset.value == 0);
}

// CUpti_ActivitySynchronization2: "A unique ID to associate event synchronization
// records with the latest CUDA Event record."
void WaitsNameWhatTheyWaitFor(const Trace& trace) {
  int of_event = 0, of_stream = 0, of_context = 0;
  for (const auto& wait : trace.waits) {
    CHECK_THAT(wait.start <= wait.end);
    if (wait.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT) {
      ++of_event;
      CHECK_THAT(wait.streamId == trace.stream_id);
      CHECK_THAT(trace.events.size() == 1 &&
                 trace.events[0].cudaEventSyncId == wait.cudaEventSyncId &&
                 trace.events[0].eventId == wait.cudaEventId);
    } else if (wait.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE) {
      of_stream += wait.streamId == trace.stream_id;
      CHECK_THAT(wait.cudaEventId == CUPTI_SYNCHRONIZATION_INVALID_VALUE);
      for (const auto& copy : trace.copies)
        CHECK_THAT(copy.end <= wait.end && "the wait covers the copy");
    } else if (wait.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE) {
      ++of_context;
    }
  }
  CHECK_THAT(of_event == 1);
  CHECK_THAT(of_stream == 1);
  CHECK_THAT(of_context >= 1);
}

void MemoryIsShownAsItComesAndGoes(const Trace& trace) {
  int allocations = 0, releases = 0;
  for (const auto& memory : trace.memory) {
    if (memory.address != reinterpret_cast<uint64_t>(trace.address))
      continue;
    CHECK_THAT(memory.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
    const bool allocates =
        memory.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    allocations += allocates;
    releases += !allocates;
    if (allocates)
      CHECK_THAT(memory.bytes >= 1 << 20);
  }
  CHECK_THAT(allocations == 1);
  CHECK_THAT(releases == 1);
}

// "the activity API record will be preceded by a CUpti_ActivityExternalCorrelation
// record"
void ExternalIdsReachTheCallsMadeUnderThem(const Trace& trace) {
  size_t found = 0;
  for (const auto& kernel : trace.kernels)
    for (const auto& external : trace.external)
      found += external.correlationId == kernel.correlationId &&
               external.externalId == 42 &&
               external.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  CHECK_THAT(found == trace.kernels.size());
}

// CUpti_CallbackData::correlationId: "this ID will equal the correlation ID in the
// CUpti_ActivityAPI record"; correlationData: "data shared between the entry and exit".
void CallbacksEncloseTheirCalls(const Trace& trace) {
  int launches = 0;
  for (size_t i = 0; i + 1 < trace.callbacks.size(); ++i) {
    const CallbackSeen& enter = trace.callbacks[i];
    if (enter.site != CUPTI_API_ENTER || !IsLaunch(enter.cbid))
      continue;
    ++launches;
    const CallbackSeen& exit = trace.callbacks[i + 1];
    CHECK_THAT(exit.site == CUPTI_API_EXIT && exit.cbid == enter.cbid);
    CHECK_THAT(exit.correlation == enter.correlation);
    CHECK_THAT(exit.carried == enter.carried);
    CHECK_THAT(enter.function.find("cudaLaunchKernel") != std::string::npos);
    const CUpti_ActivityAPI* call = CallOf(trace, enter.correlation);
    CHECK_THAT(call != nullptr && call->cbid == enter.cbid);
  }
  CHECK_THAT(launches == 3);
}

void RangesAreMarkers(const Trace& trace) {
  if (!trace.nvtx)
    return;  // NVTX was not told of a library
  const auto named = std::find(trace.marker_names.begin(), trace.marker_names.end(),
                               std::string("work"));
  CHECK_THAT(named != trace.marker_names.end());
  if (named == trace.marker_names.end())
    return;
  const auto& begin =
      trace.markers[static_cast<size_t>(named - trace.marker_names.begin())];
  CHECK_THAT(begin.flags == CUPTI_ACTIVITY_FLAG_MARKER_START);
  int ends = 0;
  for (const auto& marker : trace.markers) {
    if (marker.id == begin.id && marker.flags == CUPTI_ACTIVITY_FLAG_MARKER_END) {
      ++ends;
      CHECK_THAT(begin.timestamp <= marker.timestamp);
    }
  }
  CHECK_THAT(ends == 1);
}

// cuptiGetTimestamp: "normalized to correspond with the start and end timestamps
// reported in the CUPTI activity records"; Linux "uses clock_gettime(CLOCK_REALTIME)".
void TimesAreOnOneClock(const Trace& trace) {
  for (const auto& kernel : trace.kernels)
    CHECK_THAT(trace.began <= kernel.start && kernel.end <= trace.ended);
  timespec before{}, after{};
  uint64_t stamp = 0;
  clock_gettime(CLOCK_REALTIME, &before);
  CHECK_OK(cuptiGetTimestamp(&stamp));
  clock_gettime(CLOCK_REALTIME, &after);
  auto nanoseconds = [](const timespec& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(time.tv_nsec);
  };
  CHECK_THAT(nanoseconds(before) <= stamp && stamp <= nanoseconds(after));
  CHECK_THAT(trace.dropped == 0);
}

struct Rule {
  const char* name;
  void (*check)(const Trace& trace);
};
constexpr Rule kRules[] = {
    {"kernels belong to their launches", KernelsBelongToTheirLaunches},
    {"copies and memsets say what they moved", CopiesAndMemsetsSayWhatTheyMoved},
    {"waits name what they wait for", WaitsNameWhatTheyWaitFor},
    {"memory is shown as it comes and goes", MemoryIsShownAsItComesAndGoes},
    {"external ids reach the calls made under them",
     ExternalIdsReachTheCallsMadeUnderThem},
    {"callbacks enclose their calls", CallbacksEncloseTheirCalls},
    {"ranges are markers", RangesAreMarkers},
    {"times are on one clock", TimesAreOnOneClock},
};

}  // namespace
}  // namespace conformance

int main() {
  using conformance::Failures;
  if (!conformance::CanTrace()) {
    std::printf("no GPU or no CUPTI: nothing checked\n");
    return 77;
  }
  const conformance::Trace trace = conformance::TraceTheWork();
  int broken = Failures() != 0 ? 1 : 0;
  for (const conformance::Rule& rule : conformance::kRules) {
    const int before = Failures();
    rule.check(trace);
    const bool holds = Failures() == before;
    std::printf("%s cupti: %s\n", holds ? "ok  " : "FAIL", rule.name);
    broken += holds ? 0 : 1;
  }
  std::printf("%d rule%s broken\n", broken, broken == 1 ? "" : "s");
  return broken == 0 ? 0 : 1;
}
