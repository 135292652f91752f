// Chapter "Group Calls": what a group is, what waits, several GPUs of one thread,
// errors.

#include <thread>

#include "tests/virtual_nccl/conformance/sums.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/group";
constexpr char kUsage[] = "usage/groups";

// A communicator of all GPUs of this process, made by one thread.
struct AllDevices {
  std::vector<ncclComm_t> comms{static_cast<size_t>(TheWorld().devices)};

  AllDevices() {
    ncclUniqueId id;
    EXPECT_OK(ncclGetUniqueId(&id));
    EXPECT_OK(ncclGroupStart());
    for (int i = 0; i < TheWorld().devices; ++i) {
      EXPECT_CUDA(cudaSetDevice(i));
      EXPECT_OK(
          ncclCommInitRank(&comms[static_cast<size_t>(i)], TheWorld().devices, id, i));
    }
    EXPECT_OK(ncclGroupEnd());
    EXPECT_CUDA(cudaSetDevice(TheWorld().device));
  }
  ~AllDevices() {
    for (ncclComm_t comm : comms)
      EXPECT_OK(ncclCommDestroy(comm));
  }
};

void SumOnAllDevices(int rounds) {
  const AllDevices all;
  std::vector<Buffer> buffers;
  for (int i = 0; i < TheWorld().devices; ++i) {
    EXPECT_CUDA(cudaSetDevice(i));
    buffers.push_back(Ones());
  }
  EXPECT_OK(ncclGroupStart());
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < buffers.size(); ++i)
      Sum(buffers[i], all.comms[i], nullptr);
  EXPECT_OK(ncclGroupEnd());
  int expected = 1;
  for (int round = 0; round < rounds; ++round)
    expected *= TheWorld().devices;
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_CUDA(cudaSetDevice(static_cast<int>(i)));
    EXPECT_THAT(buffers[i].Values<int>()[0] == expected);
  }
  EXPECT_CUDA(cudaSetDevice(TheWorld().device));
}

constexpr Case kCases[] = {
    {"group.start", "ncclGroupStart ncclGroupEnd", kPage,
     "ncclGroupStart: start a group call",
     [] {
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclGroupEnd());
     }},
    {"group.does_not_block", "ncclGroupStart ncclCommInitRank", kPage,
     "ncclGroupStart: calls until ncclGroupEnd will not block",
     [] {
       // One thread joins two communicators in an order that differs between ranks.
       const ncclUniqueId a = SharedId(), b = SharedId();
       Comm first, second;
       const bool swapped = TheWorld().rank % 2 == 1;
       EXPECT_OK(ncclGroupStart());
       for (bool one : {swapped, !swapped})
         EXPECT_OK(ncclCommInitRank(one ? first.out() : second.out(), TheWorld().size,
                                    one ? a : b, TheWorld().rank));
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(Works(first.get()) && Works(second.get()));
     }},
    {"group.end", "ncclGroupEnd", kPage,
     "ncclGroupEnd: returns when all operations have been processed",
     [] {
       const Buffer buffer = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       EXPECT_OK(ncclGroupEnd());
       Synchronize();
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"group.enqueued", "ncclGroupEnd", kPage,
     "ncclGroupEnd: enqueued to the streams, but not necessarily complete",
     [] {
       const Buffer buffer = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       EXPECT_OK(ncclGroupEnd());
       // Whoever synchronises with the stream finds the end of the operation.
       cudaEvent_t event = nullptr;
       EXPECT_CUDA(cudaEventCreate(&event));
       EXPECT_CUDA(cudaEventRecord(event, TheWorld().stream));
       EXPECT_CUDA(cudaEventSynchronize(event));
       EXPECT_CUDA(cudaStreamQuery(TheWorld().stream));
       EXPECT_CUDA(cudaEventDestroy(event));
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"group.waits_for_init", "ncclGroupEnd ncclCommInitRank", kPage,
     "ncclGroupEnd: waits for all communicators to be initialized",
     [] {
       if (!HasBoard())
         return;
       Comm comm;
       const ncclUniqueId id = SharedId();
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclCommInitRank(comm.out(), TheWorld().size, id, TheWorld().rank));
       Post("group");
       EXPECT_OK(ncclGroupEnd());
       for (int rank : TheWorld().present)
         EXPECT_THAT(IsPosted("group", rank));
     }},
    {"group.threads", "ncclGroupStart ncclGroupEnd", kPage,
     "Group: primitives define the behavior of the current thread",
     [] {
       EXPECT_OK(ncclGroupStart());
       // Another thread is in no group.
       ncclResult_t elsewhere = ncclSuccess;
       std::thread([&] { elsewhere = ncclGroupEnd(); }).join();
       EXPECT_THAT(elsewhere == ncclInvalidUsage);
       EXPECT_OK(ncclGroupEnd());
     }},
    {"group.threads_independent", "ncclGroupStart ncclGroupEnd", kPage,
     "Group: can be used from multiple threads independently",
     [] {
       const Buffer inside = Ones(), outside = Ones();
       const Comm comm = Duplicate();
       EXPECT_OK(ncclGroupStart());
       Sum(inside);
       std::thread([&] {
         EXPECT_CUDA(cudaSetDevice(TheWorld().device));
         Sum(outside, comm.get(), TheWorld().stream);
         EXPECT_THAT(IsSummed(outside));
       }).join();
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(IsSummed(inside));
     }},
    {"group.end_alone", "ncclGroupEnd", "usage/communicators",
     "errors table: ncclInvalidUsage, the usage of NCCL calls is invalid",
     [] { EXPECT_CODE(ncclInvalidUsage, ncclGroupEnd()); }, kNoDevice},
    {"group.empty", "ncclGroupStart ncclGroupEnd", kUsage,
     "Group Calls: can be used to merge multiple calls into one",
     [] {
       for (int i = 0; i < 3; ++i) {
         EXPECT_OK(ncclGroupStart());
         EXPECT_OK(ncclGroupEnd());
       }
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"group.combined", "ncclGroupStart ncclGroupEnd ncclSend ncclRecv", kUsage,
     "Group Calls: all three usages can be combined together",
     [] {
       const World& world = TheWorld();
       const Buffer sum = Ones(), out(Ints{world.rank}), in(sizeof(int));
       EXPECT_OK(ncclGroupStart());
       Sum(sum);
       EXPECT_OK(
           ncclSend(out.at(), 1, ncclInt, world.next(), world.comm, world.stream));
       EXPECT_OK(
           ncclRecv(in.at(), 1, ncclInt, world.previous(), world.comm, world.stream));
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(IsSummed(sum));
       EXPECT_THAT(in.Values<int>()[0] == world.previous());
     },
     kEveryRank},
    {"group.one_thread_many_gpus", "ncclGroupStart ncclGroupEnd ncclAllReduce", kUsage,
     "Multiple GPUs: a single thread managing devices must use groups",
     [] { SumOnAllDevices(1); }, kTwoDevices},
    {"group.single_call", "ncclGroupStart ncclGroupEnd ncclAllReduce", kUsage,
     "Multiple GPUs: a single call to many devices", [] { SumOnAllDevices(2); },
     kTwoDevices},
    {"group.init_one_thread", "ncclGroupStart ncclGroupEnd ncclCommInitRank", kUsage,
     "Multiple GPUs: groups must be used to create a communicator",
     [] {
       const AllDevices all;
       for (ncclComm_t comm : all.comms)
         EXPECT_THAT(CountOf(comm) == TheWorld().devices);
     },
     kTwoDevices},
    {"group.set_device_for_init", "ncclGroupEnd ncclCommCuDevice", kUsage,
     "Multiple GPUs: the device is still needed for init in a group",
     [] {
       const AllDevices all;
       for (int i = 0; i < TheWorld().devices; ++i)
         EXPECT_THAT(DeviceOf(all.comms[static_cast<size_t>(i)]) == i);
     },
     kTwoDevices},
    {"group.no_set_device", "ncclGroupEnd ncclAllReduce", kUsage,
     "Multiple GPUs: no need to set the device before every call",
     [] {
       const Buffer buffer = Ones();
       EXPECT_CUDA(cudaSetDevice(TheWorld().devices - 1));
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       EXPECT_OK(ncclGroupEnd());
       int device = -1;
       EXPECT_CUDA(cudaGetDevice(&device));
       EXPECT_THAT(device == TheWorld().devices - 1);
       EXPECT_CUDA(cudaSetDevice(TheWorld().device));
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"group.not_before_end", "ncclGroupStart ncclGroupEnd", kUsage,
     "Multiple GPUs: stream operations only after ncclGroupEnd returns",
     [] {
       const Buffer buffer = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       // Nothing is on the stream yet.
       EXPECT_CUDA(cudaStreamSynchronize(TheWorld().stream));
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"group.error_keeps_state", "ncclGroupEnd ncclAllReduce", "usage/communicators",
     "errors (3): returned immediately for a call within a group",
     [] {
       EXPECT_OK(ncclGroupStart());
       EXPECT_CODE(ncclInvalidArgument,
                   ncclAllReduce(nullptr, nullptr, 1, ncclInt, ncclSum, nullptr,
                                 TheWorld().stream));
       // NCCL 2.28 returns the code here once more, which (3) denies.
       static_cast<void>(ncclGroupEnd());
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"group.global_errors", "ncclGroupEnd", "usage/communicators",
     "errors (6): always reported by ncclGroupEnd, apply to all operations",
     [] {
       Comm comm = Duplicate();
       const Buffer buffer = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(buffer, comm.get(), TheWorld().stream);
       EXPECT_OK(ncclRecv(buffer.at(), 1, ncclInt, TheWorld().rank, comm.get(),
                          TheWorld().stream));
       EXPECT_CODE(ncclInvalidUsage, ncclGroupEnd());
       EXPECT_OK(ncclCommAbort(comm.Release()));
     }},
};

}  // namespace

std::span<const Case> GroupCases() {
  return kCases;
}

}  // namespace conformance
