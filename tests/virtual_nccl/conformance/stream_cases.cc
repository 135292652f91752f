// Chapters "CUDA Stream Semantics", "Data Pointers", "Thread Safety" and concurrent
// communicators.

#include <atomic>
#include <thread>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "usage/streams";
constexpr char kData[] = "usage/data";
constexpr char kThreads[] = "usage/threadsafety";
constexpr char kGraphs[] = "usage/cudagraph";

using Ints = std::vector<int>;

struct Stream {
  cudaStream_t handle = nullptr;
  Stream() { EXPECT_CUDA(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~Stream() { EXPECT_CUDA(cudaStreamDestroy(handle)); }
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { EXPECT_CUDA(cudaEventCreate(&handle)); }
  ~Event() { EXPECT_CUDA(cudaEventDestroy(handle)); }
};

void Sum(void* data, size_t count, ncclComm_t comm, cudaStream_t stream) {
  EXPECT_OK(ncclAllReduce(data, data, count, ncclInt, ncclSum, comm, stream));
}

void Sum(const Buffer& buffer, cudaStream_t stream) {
  Sum(buffer.at(), buffer.bytes() / sizeof(int), TheWorld().comm, stream);
}

Buffer Ones() {
  return Buffer(Ints(4, 1));
}

bool IsSummed(const Buffer& buffer) {
  return buffer.Values<int>() == Ints(4, TheWorld().size);
}

// Written on its stream, then summed on the same one.
void CheckOrder(cudaStream_t stream) {
  const Buffer buffer = Ones(), copy(16);
  EXPECT_CUDA(cudaMemsetAsync(buffer.at(), 0, 16, stream));
  Sum(buffer, stream);
  EXPECT_CUDA(
      cudaMemcpyAsync(copy.at(), buffer.at(), 16, cudaMemcpyDeviceToDevice, stream));
  EXPECT_THAT(copy.Values<int>() == Ints(4, 0));
}

// The work takes its time on the stream that it was given.
void TakesTime(cudaStream_t stream) {
  const Buffer large(size_t{64} << 20);
  const Event start, end;
  EXPECT_CUDA(cudaEventRecord(start.handle, stream));
  Sum(large, stream);
  EXPECT_CUDA(cudaEventRecord(end.handle, stream));
  EXPECT_CUDA(cudaEventSynchronize(end.handle));
  float milliseconds = 0;
  EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, start.handle, end.handle));
  // No GPU reads 64 MiB in 10 us.
  EXPECT_THAT(milliseconds > 0.01f);
}

// Two streams in one group: host functions before and after show what waited for what.
struct Marks {
  std::atomic<int> before{0}, seen_after{-1};
};

void Mix(bool late_on_second) {
  const Stream one, two;
  const Buffer a = Ones(), b = Ones();
  Marks marks;
  cudaStream_t late = late_on_second ? two.handle : one.handle;
  cudaStream_t other = late_on_second ? one.handle : two.handle;
  EXPECT_CUDA(cudaLaunchHostFunc(
      late, [](void* data) { static_cast<Marks*>(data)->before = 1; }, &marks));
  EXPECT_OK(ncclGroupStart());
  Sum(a, one.handle);
  Sum(b, two.handle);
  EXPECT_OK(ncclGroupEnd());
  EXPECT_CUDA(cudaLaunchHostFunc(
      other,
      [](void* data) {
        auto* given = static_cast<Marks*>(data);
        given->seen_after = given->before.load();
      },
      &marks));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_THAT(marks.seen_after == 1);
  EXPECT_THAT(IsSummed(a) && IsSummed(b));
}

// Captures a sum, launches it `launches` times.
void Capture(int launches) {
  const Stream stream;
  const Buffer buffer = Ones();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
  Sum(buffer, stream.handle);
  EXPECT_CUDA(cudaStreamEndCapture(stream.handle, &graph));
  EXPECT_CUDA(cudaGraphInstantiate(&instance, graph, 0));
  int expected = 1;
  for (int i = 0; i < launches; ++i) {
    EXPECT_CUDA(cudaGraphLaunch(instance, stream.handle));
    expected *= TheWorld().size;
  }
  EXPECT_THAT(buffer.Values<int>() == Ints(4, expected));
  EXPECT_CUDA(cudaGraphExecDestroy(instance));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

void InThread(void (*body)()) {
  std::thread([body] {
    EXPECT_CUDA(cudaSetDevice(TheWorld().device));
    body();
  }).join();
}

constexpr Case kCases[] = {
    {"streams.associated", "ncclAllReduce", kPage,
     "Streams: calls are associated to a stream, passed as the last argument",
     [] {
       CheckOrder(TheWorld().stream);
       TakesTime(TheWorld().stream);
     },
     kTwoRanks},
    {"streams.returns_enqueued", "ncclAllReduce", kPage,
     "Streams: returns when effectively enqueued, or returns an error",
     [] {
       const Buffer buffer = Ones();
       Sum(buffer, TheWorld().stream);
       Synchronize();
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"streams.asynchronous", "ncclAllReduce", kPage,
     "Streams: then executed asynchronously on the CUDA device",
     [] {
       // A pile of work; the calls return all the same.
       const Buffer buffer = Ones();
       for (int i = 0; i < 32; ++i) {
         EXPECT_CUDA(cudaMemsetAsync(buffer.at(), 0, 16, TheWorld().stream));
         Sum(buffer, TheWorld().stream);
       }
       EXPECT_THAT(buffer.Values<int>() == Ints(4, 0));
     }},
    {"streams.cuda_semantics", "ncclAllReduce", kPage,
     "Streams: status queried by cudaStreamSynchronize or CUDA events",
     [] {
       const Buffer buffer = Ones();
       const Event start, end;
       EXPECT_CUDA(cudaEventRecord(start.handle, TheWorld().stream));
       Sum(buffer, TheWorld().stream);
       EXPECT_CUDA(cudaEventRecord(end.handle, TheWorld().stream));
       EXPECT_CUDA(cudaEventSynchronize(end.handle));
       EXPECT_CUDA(cudaEventQuery(start.handle));
       float milliseconds = -1;
       EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, start.handle, end.handle));
       EXPECT_THAT(milliseconds >= 0);
     }},
    {"streams.null", "ncclAllReduce", kPage,
     "Streams: operations are posted on the given stream", [] { CheckOrder(nullptr); }},
    {"streams.legacy_and_per_thread", "ncclAllReduce", kPage,
     "Streams: a stream is the last argument of the function",
     [] {
       CheckOrder(cudaStreamLegacy);
       CheckOrder(cudaStreamPerThread);
     }},
    {"streams.mixed", "ncclGroupStart ncclGroupEnd", kPage,
     "Mixing: NCCL allows for using multiple streams within a group",
     [] {
       const Stream one, two;
       const Buffer a = Ones(), b = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(a, one.handle);
       Sum(b, two.handle);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_CUDA(cudaStreamSynchronize(one.handle));
       EXPECT_CUDA(cudaStreamSynchronize(two.handle));
       EXPECT_THAT(IsSummed(a) && IsSummed(b));
     }},
    {"streams.mixed_before", "ncclGroupEnd", kPage,
     "Mixing: a dependency of all streams before the NCCL kernel starts",
     [] { Mix(true); }, kTwoRanks},
    {"streams.mixed_after", "ncclGroupEnd", kPage,
     "Mixing: block all streams until the NCCL kernel completes", [] { Mix(false); },
     kTwoRanks},
    {"streams.mixed_every", "ncclGroupEnd", kPage,
     "Mixing: as if the group operation was posted on every stream",
     [] {
       const Stream one, two, three;
       const Buffer a = Ones(), b = Ones(), c = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(a, one.handle);
       Sum(b, two.handle);
       Sum(c, three.handle);
       EXPECT_OK(ncclGroupEnd());
       // Whichever is waited for, all is done.
       EXPECT_CUDA(cudaStreamSynchronize(three.handle));
       EXPECT_CUDA(cudaStreamQuery(one.handle));
       EXPECT_THAT(IsSummed(a) && IsSummed(b) && IsSummed(c));
     },
     kTwoRanks},
    {"streams.mixed_global", "ncclGroupEnd", kPage,
     "Mixing: it will cause a global synchronization point of the streams",
     [] {
       Mix(true);
       Mix(false);
     },
     kTwoRanks},
    {"streams.one_comm_many_streams", "ncclAllReduce", "nccl.h",
     "Collectives: return when operations have been enqueued on the stream",
     [] {
       const Stream one, two;
       const Buffer a = Ones(), b = Ones();
       Sum(a, one.handle);
       Sum(b, two.handle);
       EXPECT_THAT(IsSummed(a) && IsSummed(b));
     }},
    {"streams.each_comm_separately", "ncclAllReduce", "nccl.h",
     "Collectives: must be called separately for each communicator",
     [] {
       const Comm other = Duplicate();
       const Buffer a = Ones(), b = Ones();
       Sum(a, TheWorld().stream);
       EXPECT_THAT(b.Values<int>()[0] == 1);
       Sum(b.at(), 4, other.get(), TheWorld().stream);
       EXPECT_THAT(IsSummed(a) && IsSummed(b));
     }},
    {"comms.concurrent", "ncclAllReduce", "usage/communicators",
     "Concurrently: all ranks do this first and this second",
     [] {
       const Comm one = Duplicate(), two = Duplicate();
       const Stream first, second;
       const Buffer a = Ones(), b = Ones();
       Sum(a.at(), 4, one.get(), first.handle);
       Sum(b.at(), 4, two.get(), second.handle);
       EXPECT_CUDA(cudaStreamSynchronize(second.handle));
       EXPECT_THAT(IsSummed(a) && IsSummed(b));
     }},
    {"comms.host_order", "ncclAllReduce", "usage/communicators",
     "Concurrently: a deterministic order from a single host thread",
     [] {
       const Comm one = Duplicate(), two = Duplicate();
       const Buffer a = Ones(), b = Ones();
       for (int i = 0; i < 8; ++i) {
         EXPECT_CUDA(cudaMemset(a.at(), 0, 16));
         Sum(a.at(), 4, one.get(), TheWorld().stream);
         Sum(a.at(), 4, two.get(), TheWorld().stream);
       }
       Sum(b.at(), 4, two.get(), TheWorld().stream);
       EXPECT_THAT(IsSummed(b));
     }},
    {"data.device_memory", "ncclAllReduce", kData,
     "Data: device memory local to the CUDA device",
     [] {
       const Buffer buffer = Ones();
       Sum(buffer, TheWorld().stream);
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"data.any_offset", "ncclAllReduce", kData,
     "Data: will accept any CUDA pointers that are accessible",
     [] {
       const Buffer buffer(Ints(9, 1));
       Sum(buffer.at(12), 3, TheWorld().comm, TheWorld().stream);
       Ints expected(9, 1);
       expected[3] = expected[4] = expected[5] = TheWorld().size;
       EXPECT_THAT(buffer.Values<int>() == expected);
     }},
    {"data.host_registered", "ncclAllReduce cudaHostRegister", kData,
     "Data: host memory registered using cudaHostRegister",
     [] {
       Ints* values = new Ints(1024, 1);
       EXPECT_CUDA(cudaHostRegister(values->data(), 4096, cudaHostRegisterMapped));
       void* at = nullptr;
       EXPECT_CUDA(cudaHostGetDevicePointer(&at, values->data(), 0));
       Sum(at, 1024, TheWorld().comm, TheWorld().stream);
       Synchronize();
       EXPECT_THAT(*values == Ints(1024, TheWorld().size));
       EXPECT_CUDA(cudaHostUnregister(values->data()));
       delete values;
     }},
    {"data.host_allocated", "ncclAllReduce cudaHostAlloc", kData,
     "Data: host memory, its device pointer",
     [] {
       int* values = nullptr;
       EXPECT_CUDA(
           cudaHostAlloc(reinterpret_cast<void**>(&values), 16, cudaHostAllocMapped));
       values[0] = 1;
       Sum(values, 1, TheWorld().comm, TheWorld().stream);
       Synchronize();
       EXPECT_THAT(values[0] == TheWorld().size);
       EXPECT_CUDA(cudaFreeHost(values));
     }},
    {"data.managed", "ncclAllReduce cudaMallocManaged", kData,
     "Data: managed and unified memory",
     [] {
       int* values = nullptr;
       EXPECT_CUDA(cudaMallocManaged(reinterpret_cast<void**>(&values), 16,
                                     cudaMemAttachGlobal));
       if (values == nullptr)
         return;
       values[0] = 1;
       Sum(values, 1, TheWorld().comm, TheWorld().stream);
       Synchronize();
       EXPECT_THAT(values[0] == TheWorld().size);
       EXPECT_CUDA(cudaFree(values));
     },
     kAnything, "managed memory is not modelled"},
    {"threads.one_at_a_time", "ncclAllReduce", kThreads,
     "Threads: safe where only one thread operates it at a time",
     [] {
       for (int i = 0; i < 3; ++i)
         InThread([] { EXPECT_THAT(Works(TheWorld().comm)); });
     }},
    {"threads.reentrant", "ncclAllReduce", kThreads,
     "Threads: primitives are reentrant",
     [] {
       InThread([] {
         EXPECT_THAT(CountOf(TheWorld().comm) == TheWorld().size);
         EXPECT_THAT(Works(TheWorld().comm));
       });
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"threads.group_in_one", "ncclGroupStart ncclGroupEnd", kThreads,
     "Threads: only one thread issues all the operations in the group",
     [] {
       InThread([] {
         const Buffer a = Ones(), b = Ones();
         EXPECT_OK(ncclGroupStart());
         Sum(a, TheWorld().stream);
         Sum(b, TheWorld().stream);
         EXPECT_OK(ncclGroupEnd());
         EXPECT_THAT(IsSummed(a) && IsSummed(b));
       });
     }},
    {"threads.in_sequence", "ncclCommInitRankConfig ncclCommGetAsyncError", kThreads,
     "Threads: executed in sequence, one thread accessing at a time",
     [] {
       static ncclComm_t comm;
       static ncclUniqueId id;
       id = SharedId();
       InThread([] {
         ncclConfig_t config = NonblockingConfig();
         const ncclResult_t result = ncclCommInitRankConfig(&comm, TheWorld().size, id,
                                                            TheWorld().rank, &config);
         EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       });
       EXPECT_OK(Settle(comm));
       InThread([] { EXPECT_THAT(Works(comm)); });
       EXPECT_OK(ncclCommDestroy(comm));
     }},
    {"threads.poll_elsewhere", "ncclCommGetAsyncError", kThreads,
     "Threads: issue from one thread and poll the status with another",
     [] {
       const Buffer buffer = Ones();
       Sum(buffer, TheWorld().stream);
       InThread([] { EXPECT_OK(Settle(TheWorld().comm)); });
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"graphs.captured", "ncclAllReduce", kGraphs,
     "Graphs: NCCL operations can be captured by CUDA Graphs", [] { Capture(1); },
     kEveryRank},
    {"graphs.launched_often", "ncclAllReduce", kGraphs,
     "Graphs: collective, P2P and group operations all support captures",
     [] { Capture(3); }, kEveryRank},
    {"graphs.mixed", "ncclAllReduce", kGraphs,
     "Graphs: mixing captured and non-captured operations is supported",
     [] {
       Capture(1);
       EXPECT_THAT(Works(TheWorld().comm));
       Capture(2);
     },
     kEveryRank},
};

}  // namespace

std::span<const Case> StreamCases() {
  return kCases;
}

}  // namespace conformance
