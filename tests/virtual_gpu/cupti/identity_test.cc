// libcupti: clock, ids, version, attributes, errors.

#include <unistd.h>

#include <string>
#include <thread>

#include "tests/virtual_gpu/cupti/cupti_fixture.h"
#include "virtual_gpu/api/cupti/cbids.h"

namespace vrank::cupti {
namespace {

uint64_t CUPTIAPI OtherClock() {
  return static_cast<uint64_t>(TheActivity().now_ns) + 5'000'000;
}

// "Linux [...] uses clock_gettime(CLOCK_REALTIME)"
TEST_F(CuptiTest, TellsTheTimeOfItsRecords) {
  uint64_t now = 0;
  EXPECT_CUPTI(cuptiGetTimestamp(&now));
  EXPECT_EQ(now, Stamp(1'000));
  EXPECT_CUPTI(cuptiActivityRegisterTimestampCallback(OtherClock));
  TheActivity().now_ns = 3'000;
  EXPECT_CUPTI(cuptiGetTimestamp(&now));
  EXPECT_EQ(now, 5'003'000u);
  EXPECT_EQ(cuptiActivityRegisterTimestampCallback(nullptr),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiGetTimestamp(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  RegisterBuffers();
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME));
  Report("cudaMalloc", 1, 10, 20);
  auto calls = RecordsAs<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0]->start, 5'000'010u);
}

#if defined(__x86_64__)
uint64_t CUPTIAPI Counter() {
  return __builtin_ia32_rdtsc();
}

// torch.profiler's; it runs in real time, whatever is read from it.
TEST_F(CuptiTest, TheProcessorsCounterIsNoClockForRecords) {
  EXPECT_CUPTI(cuptiActivityRegisterTimestampCallback(Counter));
  uint64_t now = 0;
  EXPECT_CUPTI(cuptiGetTimestamp(&now));
  EXPECT_EQ(now, Stamp(1'000));
}
#endif

TEST_F(CuptiTest, GivesIdsOfContextsAndStreams) {
  const auto first = reinterpret_cast<CUcontext>(uintptr_t{1});
  uint32_t context = 0, device = 9, stream = 0;
  EXPECT_CUPTI(cuptiGetContextId(first, &context));
  EXPECT_NE(context, 0u);
  EXPECT_EQ(cuptiGetContextId(nullptr, &context), CUPTI_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuptiGetContextId(first, nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_CUPTI(cuptiGetDeviceId(nullptr, &device));
  EXPECT_EQ(device, 0u);
  EXPECT_CUPTI(cuptiGetDeviceId(first, &device));
  EXPECT_EQ(device, 0u);
  EXPECT_EQ(cuptiGetDeviceId(reinterpret_cast<CUcontext>(uintptr_t{9}), &device),
            CUPTI_ERROR_INVALID_DEVICE);
  EXPECT_CUPTI(cuptiGetStreamIdEx(nullptr, nullptr, 0, &stream));
  EXPECT_EQ(stream, 7u);
  EXPECT_CUPTI(cuptiGetStreamIdEx(first, CU_STREAM_LEGACY, 1, &stream));
  EXPECT_EQ(stream, 7u);
  EXPECT_EQ(
      cuptiGetStreamIdEx(nullptr, reinterpret_cast<CUstream>(&stream), 0, &stream),
      CUPTI_ERROR_INVALID_STREAM);
}

TEST_F(CuptiTest, NamesThreadsAsTheSystemDoes) {
  RegisterBuffers();
  CUpti_ActivityThreadIdType type{};
  EXPECT_CUPTI(cuptiGetThreadIdType(&type));
  EXPECT_EQ(type, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
  EXPECT_CUPTI(cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
  EXPECT_EQ(cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SIZE),
            CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME));
  uint32_t tid = 0;
  std::thread([&] {
    tid = static_cast<uint32_t>(gettid());
    Enter("cudaMalloc", 1);
    Exit("cudaMalloc", 1);
  }).join();
  gpu::ActivityCall call;
  call.function = "cudaMalloc";
  call.correlation = Id(1);
  call.thread = 5;
  Listener().OnCall(call);
  call.correlation = Id(2);
  Listener().OnCall(call);
  auto calls = RecordsAs<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]->threadId, tid);
  EXPECT_EQ(calls[1]->threadId, tid);
  EXPECT_CUPTI(cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT));
}

TEST_F(CuptiTest, KeepsExternalIds) {
  constexpr auto kKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
  uint64_t last = 0;
  EXPECT_EQ(cuptiActivityPopExternalCorrelationId(kKind, &last),
            CUPTI_ERROR_QUEUE_EMPTY);
  EXPECT_CUPTI(cuptiActivityPushExternalCorrelationId(kKind, 41));
  EXPECT_CUPTI(cuptiActivityPushExternalCorrelationId(kKind, 42));
  EXPECT_CUPTI(cuptiActivityPopExternalCorrelationId(kKind, &last));
  EXPECT_EQ(last, 42u);
  EXPECT_CUPTI(cuptiActivityPopExternalCorrelationId(kKind, nullptr));
  EXPECT_EQ(cuptiActivityPushExternalCorrelationId(
                CUPTI_EXTERNAL_CORRELATION_KIND_INVALID, 1),
            CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(CuptiTest, ChecksAttributes) {
  uint8_t flag = 9;
  size_t bytes = sizeof flag;
  EXPECT_CUPTI(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER,
                                         &bytes, &flag));
  EXPECT_EQ(flag, 0u);
  size_t limit = 0;
  EXPECT_EQ(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT,
                                      &bytes, &limit),
            CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
  bytes = sizeof limit;
  limit = 12;
  EXPECT_CUPTI(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT,
                                         &bytes, &limit));
  limit = 0;
  EXPECT_CUPTI(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT,
                                         &bytes, &limit));
  EXPECT_EQ(limit, 12u);
  flag = 1;
  bytes = sizeof flag;
  EXPECT_EQ(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER,
                                      &bytes, &flag),
            CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, nullptr,
                                      &limit),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_FORCE_INT,
                                      &bytes, &flag),
            CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(CuptiTest, RefusesSwitchesThatItCannotHonour) {
  for (auto function :
       {cuptiActivityEnableLatencyTimestamps, cuptiActivityEnableLaunchAttributes,
        cuptiActivityEnableAllSyncRecords, cuptiActivityEnableHWTrace,
        cuptiActivityEnableDeviceGraph, cuptiActivityEnableAllocationSource}) {
    EXPECT_EQ(function(1), CUPTI_ERROR_NOT_SUPPORTED);
    EXPECT_CUPTI(function(0));
  }
  CUpti_ActivityUnifiedMemoryCounterConfig config{};
  EXPECT_EQ(cuptiActivityConfigureUnifiedMemoryCounter(&config, 1),
            CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE);
}

// "Returns the last error [...] in the same host thread and resets it"
TEST_F(CuptiTest, RemembersTheLastErrorOfAThread) {
  EXPECT_EQ(cuptiGetTimestamp(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  CUptiResult elsewhere = CUPTI_ERROR_UNKNOWN;
  std::thread([&] { elsewhere = cuptiGetLastError(); }).join();
  EXPECT_EQ(elsewhere, CUPTI_SUCCESS);
  EXPECT_EQ(cuptiGetLastError(), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiGetLastError(), CUPTI_SUCCESS);
}

TEST_F(CuptiTest, SaysItsVersionAndWhatResultsMean) {
  uint32_t version = 0;
  EXPECT_CUPTI(cuptiGetVersion(&version));
  EXPECT_EQ(version, 130001u);
  const char* text = nullptr;
  EXPECT_CUPTI(
      cuptiGetResultString(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, &text));
  EXPECT_STREQ(text, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
  for (int result = 0; result <= CUPTI_ERROR_INVALID_CHIP_NAME; ++result) {
    EXPECT_CUPTI(cuptiGetResultString(static_cast<CUptiResult>(result), &text))
        << result;
    EXPECT_CUPTI(cuptiGetErrorMessage(static_cast<CUptiResult>(result), &text));
  }
  EXPECT_EQ(cuptiGetResultString(static_cast<CUptiResult>(500), &text),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiGetResultString(CUPTI_SUCCESS, nullptr),
            CUPTI_ERROR_INVALID_PARAMETER);
  int supported = 0;
  EXPECT_CUPTI(cuptiDeviceSupported(1, &supported));
  EXPECT_EQ(supported, 1);
  EXPECT_EQ(cuptiDeviceSupported(2, &supported), CUPTI_ERROR_INVALID_DEVICE);
  EXPECT_CUPTI(cuptiComputeCapabilitySupported(7, 0, &supported));
  EXPECT_EQ(supported, 0);
}

TEST(CbidsTest, FollowTheHeaders) {
  EXPECT_EQ(FindCbid(false, "cudaLaunchKernel"),
            CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  EXPECT_EQ(FindCbid(false, "cudaLaunchKernel_ptsz"),
            CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000);
  // Of a name with several versions: the one that CUDA 13 exports.
  EXPECT_EQ(FindCbid(false, "cudaGetDeviceProperties"),
            CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceProperties_v12000);
  EXPECT_EQ(FindCbid(true, "cuStreamDestroy_v2"),
            CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2);
  EXPECT_EQ(FindCbid(true, "cudaMalloc"), 0u);
  EXPECT_EQ(FindCbid(false, "cudaNothing"), 0u);
  EXPECT_EQ(kDriverCbidCount, CUPTI_DRIVER_TRACE_CBID_SIZE);
  EXPECT_EQ(kRuntimeCbidCount, CUPTI_RUNTIME_TRACE_CBID_SIZE);
}

}  // namespace
}  // namespace vrank::cupti
