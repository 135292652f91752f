// The tracer against a CUPTI whose records the test knows.

#include "tracer/cupti/cupti_session.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tracer/cupti_session_fixture.h"
#include "tracer/nccl_sink.h"

namespace vrank::tracer {
namespace {

using ::testing::HasSubstr;

TEST_F(CuptiSessionTest, EnablesWorkAndCallsButNotEveryCall) {
  Trace([&] {
    EXPECT_TRUE(fake->enabled.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    EXPECT_TRUE(fake->enabled.contains(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
    EXPECT_TRUE(fake->enabled.contains(CUPTI_ACTIVITY_KIND_RUNTIME));
    // It would serialize kernels.
    EXPECT_FALSE(fake->enabled.contains(CUPTI_ACTIVITY_KIND_KERNEL));
    EXPECT_TRUE(
        fake->runtime_off.contains(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020));
    EXPECT_FALSE(
        fake->runtime_off.contains(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000));
    EXPECT_TRUE(fake->driver_off.empty());
  });
  EXPECT_TRUE(fake->enabled.empty());
}

TEST_F(CuptiSessionTest, WritesWhatCuptiDelivers) {
  const graph::RankTrace trace = Trace([&] {
    CUpti_ActivityAPI call{};
    call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    call.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
    call.start = 100;
    call.end = 110;
    call.threadId = 4711;
    call.correlationId = 5;
    fake->Deliver(call);
    call.kind = CUPTI_ACTIVITY_KIND_DRIVER;
    call.cbid = CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2;
    call.start = 120;
    call.end = 130;
    call.correlationId = 6;
    fake->Deliver(call);
    CUpti_ActivityKernel10 kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.name = "_Z3addPf";
    kernel.gridX = 7;
    kernel.blockZ = 3;
    kernel.staticSharedMemory = 16;
    kernel.dynamicSharedMemory = 4;
    kernel.registersPerThread = 32;
    kernel.streamId = 13;
    kernel.correlationId = 5;
    kernel.start = 200;
    kernel.end = 250;
    fake->Deliver(kernel);
    CUpti_ActivitySynchronization2 sync{};
    sync.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    sync.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    sync.streamId = 13;
    sync.cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    fake->Deliver(sync);
    CUpti_ActivityOverhead3 full{};
    full.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    full.overheadKind = CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL;
    fake->Deliver(full);
    fake->dropped = 3;
  });
  ASSERT_EQ(trace.calls.size(), 2u);
  EXPECT_EQ(trace.names[trace.calls[0].function], "cudaLaunchKernel");
  EXPECT_EQ(trace.names[trace.calls[1].function], "cuMemAlloc");
  EXPECT_TRUE(trace.calls[1].is_driver);
  EXPECT_EQ(trace.calls[0].thread, 0u);
  ASSERT_EQ(trace.work.size(), 1u);
  EXPECT_EQ(trace.names[trace.work[0].name], "_Z3addPf");
  EXPECT_EQ(trace.work[0].grid[0], 7u);
  EXPECT_EQ(trace.work[0].block[2], 3u);
  EXPECT_EQ(trace.work[0].shared_bytes, 20u);
  EXPECT_EQ(trace.work[0].registers, 32u);
  EXPECT_EQ(trace.work[0].end_ns, 250);
  ASSERT_EQ(trace.syncs.size(), 1u);
  EXPECT_EQ(trace.syncs[0].kind, graph::SyncKind::kStream);
  EXPECT_EQ(trace.syncs[0].event, 0u);
  ASSERT_EQ(trace.overheads.size(), 1u);
  EXPECT_EQ(trace.overheads[0].kind, graph::TracedOverhead::Kind::kLaunchQueueFull);
  EXPECT_EQ(trace.dropped_by_cupti, 3u);
  EXPECT_TRUE(trace.complete);
}

TEST_F(CuptiSessionTest, NotesTheEndsOfStreams) {
  const graph::RankTrace trace = Trace([&] {
    CUpti_CallbackData call{};
    call.callbackSite = CUPTI_API_ENTER;
    call.correlationId = 77;
    const auto destroy = CUPTI_RUNTIME_TRACE_CBID_cudaStreamDestroy_v5050;
    fake->callback(fake->user, CUPTI_CB_DOMAIN_RUNTIME_API, destroy, &call);
    CUpti_ResourceData stream{};
    stream.resourceHandle.stream = reinterpret_cast<CUstream>(uintptr_t{21});
    fake->callback(fake->user, CUPTI_CB_DOMAIN_RESOURCE,
                   CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, &stream);
    call.callbackSite = CUPTI_API_EXIT;
    fake->callback(fake->user, CUPTI_CB_DOMAIN_RUNTIME_API, destroy, &call);
  });
  ASSERT_EQ(trace.streams.size(), 1u);
  EXPECT_TRUE(trace.streams[0].destroyed);
  EXPECT_EQ(trace.streams[0].stream, 21u);
  EXPECT_EQ(trace.streams[0].correlation, 77u);
}

TEST_F(CuptiSessionTest, JoinsNcclsOperationsByAnExternalId) {
  const graph::RankTrace trace = Trace([&] {
    NcclSink sink(&tracer);
    protocol::Collective call{};
    call.communicator = 2;
    call.count = 99;
    call.operation = protocol::CollectiveKind::kAllGather;
    sink.BeginCollective(call, /*captured=*/false);
    ASSERT_EQ(fake->pushed.size(), 1u);
    CUpti_ActivityExternalCorrelation id{};
    id.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    id.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    id.externalId = fake->pushed.back();
    id.correlationId = 8;
    fake->Deliver(id);
    sink.EndOperation();
    EXPECT_TRUE(fake->pushed.empty());
    protocol::CommSplit split{};
    split.parent = 1;
    split.communicator = 2;
    sink.BeginHostCall();
    sink.EndSplit(split, "tp", 4, 3);
    sink.Reserve(3, 1 << 21);
  });
  ASSERT_EQ(trace.operations.size(), 1u);
  EXPECT_EQ(trace.operations[0].correlation, 8u);
  EXPECT_EQ(trace.operations[0].call.count, 99u);
  ASSERT_EQ(trace.nccl_calls.size(), 1u);
  EXPECT_EQ(trace.nccl_calls[0].creation.name, "tp");
  EXPECT_EQ(trace.nccl_calls[0].told_size, 4u);
  EXPECT_LT(trace.nccl_calls[0].start_ns, trace.nccl_calls[0].end_ns);
  ASSERT_EQ(trace.reserves.size(), 1u);
  EXPECT_EQ(trace.reserves[0].owner, graph::MemoryOwner::kCommunicator);
  EXPECT_EQ(trace.reserves[0].communicator, 3u);
}

TEST_F(CuptiSessionTest, NamesTheOtherUserOfCupti) {
  fake->other_subscriber = "CUPTI for Kineto";
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("Kineto"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A process has one pair of buffer callbacks: who registers his last gets all records.
TEST_F(CuptiSessionTest, FindsOutThatAnotherUserGetsTheRecords) {
  static uint8_t theirs[4096];
  const CUpti_BuffersCallbackRequestFunc request = [](uint8_t** buffer, size_t* size,
                                                      size_t* most) {
    *buffer = theirs;
    *size = sizeof theirs;
    *most = 0;
  };
  const CUpti_BuffersCallbackCompleteFunc complete = [](CUcontext, uint32_t, uint8_t*,
                                                        size_t, size_t) {};
  void* const library = dlopen(VRANK_FAKE_CUPTI, RTLD_NOW);
  const auto take = reinterpret_cast<decltype(&cuptiActivityRegisterCallbacks)>(
      dlsym(library, "cuptiActivityRegisterCallbacks"));
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Trace([&] { take(request, complete); }).records_taken);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("its profiler"));
}

TEST_F(CuptiSessionTest, FindsOutThatCuptiWasDetached) {
  EXPECT_TRUE(Trace([&] { fake->detached = true; }).records_taken);
}

TEST_F(CuptiSessionTest, ItsOwnRecordsAreNotTaken) {
  const graph::RankTrace trace = Trace([] {});
  EXPECT_FALSE(trace.records_taken);
  EXPECT_EQ(trace.unknown_records, 0u);
}

TEST_F(CuptiSessionTest, NotesWhenContextsComeAndGo) {
  const graph::RankTrace trace = Trace([&] {
    CUpti_ActivityAPI call{};
    call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    call.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
    call.threadId = static_cast<uint32_t>(gettid());
    call.start = fake->now + 10;  // the clock's next reading is inside
    call.end = fake->now + 20;
    call.correlationId = 5;
    fake->Deliver(call);
    CUpti_ResourceData context{};
    for (const auto cbid : {CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
                            CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING}) {
      fake->now += 10;
      fake->callback(fake->user, CUPTI_CB_DOMAIN_RESOURCE, cbid, &context);
    }
  });
  ASSERT_EQ(trace.contexts.size(), 3u);  // the first is the fixture's
  EXPECT_EQ(trace.contexts[1].correlation, 5u);
  EXPECT_FALSE(trace.contexts[1].destroyed);
  EXPECT_EQ(trace.contexts[2].correlation, 0u);
  EXPECT_TRUE(trace.contexts[2].destroyed);
  EXPECT_LT(trace.contexts[1].time_ns, trace.contexts[2].time_ns);
}

TEST_F(CuptiSessionTest, AProcessWithoutAContextMakesNoFile) {
  EXPECT_TRUE(tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI}));
  tracer.Finish();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CuptiSessionTest, AFileOfAnotherProcessIsLeftAlone) {
  TraceWriter other;
  ASSERT_EQ(other.Open(path.c_str()), TraceWriter::OpenResult::kOpen);
  EXPECT_TRUE(tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI}));
  ::testing::internal::CaptureStderr();
  MakeContext();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("is not traced"));
  EXPECT_FALSE(tracer.on());
  tracer.Finish();
  EXPECT_EQ(std::filesystem::file_size(path), 0u);
}

TEST_F(CuptiSessionTest, AFileOfAnEarlierProcessEndsTheRunWhereTracingIsRequired) {
  TraceWriter other;
  ASSERT_EQ(other.Open(path.c_str()), TraceWriter::OpenResult::kOpen);
  other.Finish(0);
  EXPECT_EXIT(
      {
        tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI, .required = true});
        MakeContext();
      },
      ::testing::ExitedWithCode(kExitUntraced), "trace one process of a rank");
}

TEST_F(CuptiSessionTest, EndsTheRunWhereTracingIsRequired) {
  EXPECT_EXIT(
      {
        fake->other_subscriber = "x";
        tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI, .required = true});
      },
      ::testing::ExitedWithCode(kExitUntraced), "VRANK_TRACE_REQUIRED");
  EXPECT_EXIT(tracer.Start({.file = path, .cupti = "/nowhere.so", .required = true}),
              ::testing::ExitedWithCode(kExitUntraced), "nowhere");
}

TEST_F(CuptiSessionTest, RefusesACuptiThatItCannotDecode) {
  fake->version = 120400;
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("120400"));
}

TEST_F(CuptiSessionTest, GoesWithoutKindsThatItCanSpare) {
  fake->refused = {CUPTI_ACTIVITY_KIND_MARKER};
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("NVTX ranges"));
  tracer.Finish();
}

TEST_F(CuptiSessionTest, NeedsKernels) {
  fake->refused = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("CUPTI_ERROR_INVALID_KIND"));
  EXPECT_TRUE(fake->enabled.empty());
}

// The library as a driver uses it; in a process of its own, which it traces to its
// exit.
TEST_F(CuptiSessionTest, IsInjectedAndEndsWithTheProgram) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("VRANK_TRACE_FILE", path.c_str(), 1);
    setenv("VRANK_TRACE_CUPTI", VRANK_FAKE_CUPTI, 1);
    void* library = dlopen(VRANK_TRACER, RTLD_NOW);
    if (library == nullptr)
      _exit(9);
    reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))();
    auto find =
        reinterpret_cast<NcclTrace* (*)(uint32_t)>(dlsym(library, "vrank_nccl_trace"));
    if (find(NcclTrace::kAbi + 1) != nullptr)
      _exit(8);
    MakeContext();
    find(NcclTrace::kAbi)->Reserve(1, 64);
    // A child of the program is not traced, and its end is not the trace's.
    if (const pid_t grandchild = fork(); grandchild == 0) {
      find(NcclTrace::kAbi)->Reserve(1, 1);
      exit(0);
    } else {
      waitpid(grandchild, nullptr, 0);
    }
    find(NcclTrace::kAbi)->Reserve(2, 128);
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const auto trace = graph::ReadTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE(trace->complete);
  ASSERT_EQ(trace->reserves.size(), 2u);
  EXPECT_EQ(trace->reserves[1].delta_bytes, 128);
}

}  // namespace
}  // namespace vrank::tracer
