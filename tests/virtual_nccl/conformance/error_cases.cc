// Chapters "Error handling and communicator abort" and "Fault Tolerance".

#include <string>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "usage/communicators";

using Ints = std::vector<int>;

// Every collective with everything right but what `change` says; none may go through.
struct Arguments {
  ncclComm_t comm = TheWorld().comm;
  ncclDataType_t type = ncclInt;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};

enum Which { kEvery, kRooted, kReducing };

void Refuse(const Arguments& a, Which which) {
  const Buffer s(64), r(64);
  cudaStream_t stream = TheWorld().stream;
  const auto [comm, type, op, root] = a;
  constexpr ncclResult_t kWanted = ncclInvalidArgument;
  if (which != kRooted) {
    EXPECT_CODE(kWanted, ncclAllReduce(s.at(), r.at(), 1, type, op, comm, stream));
    EXPECT_CODE(kWanted, ncclReduceScatter(s.at(), r.at(), 1, type, op, comm, stream));
  }
  EXPECT_CODE(kWanted, ncclReduce(s.at(), r.at(), 1, type, op, root, comm, stream));
  if (which != kReducing) {
    EXPECT_CODE(kWanted, ncclBroadcast(s.at(), r.at(), 1, type, root, comm, stream));
    EXPECT_CODE(kWanted, ncclBcast(s.at(), 1, type, root, comm, stream));
    EXPECT_CODE(kWanted, ncclGather(s.at(), r.at(), 1, type, root, comm, stream));
    EXPECT_CODE(kWanted, ncclScatter(s.at(), r.at(), 1, type, root, comm, stream));
    EXPECT_CODE(kWanted, ncclSend(s.at(), 1, type, root, comm, stream));
    EXPECT_CODE(kWanted, ncclRecv(r.at(), 1, type, root, comm, stream));
  }
  if (which == kEvery) {
    EXPECT_CODE(kWanted, ncclAllGather(s.at(), r.at(), 1, type, comm, stream));
    EXPECT_CODE(kWanted, ncclAlltoAll(s.at(), r.at(), 1, type, comm, stream));
  }
  EXPECT_THAT(r.IsUntouched());
}

// No element: nothing is enqueued, whatever the buffers are.
void NoElements() {
  const World& world = TheWorld();
  ncclComm_t comm = world.comm;
  cudaStream_t stream = world.stream;
  EXPECT_OK(ncclAllReduce(nullptr, nullptr, 0, ncclInt, ncclSum, comm, stream));
  EXPECT_OK(ncclReduceScatter(nullptr, nullptr, 0, ncclInt, ncclSum, comm, stream));
  EXPECT_OK(ncclReduce(nullptr, nullptr, 0, ncclInt, ncclSum, 0, comm, stream));
  EXPECT_OK(ncclBroadcast(nullptr, nullptr, 0, ncclInt, 0, comm, stream));
  EXPECT_OK(ncclBcast(nullptr, 0, ncclInt, 0, comm, stream));
  EXPECT_OK(ncclAllGather(nullptr, nullptr, 0, ncclInt, comm, stream));
  EXPECT_OK(ncclAlltoAll(nullptr, nullptr, 0, ncclInt, comm, stream));
  EXPECT_OK(ncclGather(nullptr, nullptr, 0, ncclInt, 0, comm, stream));
  EXPECT_OK(ncclScatter(nullptr, nullptr, 0, ncclInt, 0, comm, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}

constexpr Case kCases[] = {
    {"errors.no_communicator",
     "ncclAllReduce ncclReduceScatter ncclReduce ncclBroadcast ncclBcast ncclGather "
     "ncclScatter ncclSend ncclRecv ncclAllGather ncclAlltoAll",
     kPage, "errors table: ncclInvalidArgument, fix in the application",
     [] {
       Arguments arguments;
       arguments.comm = nullptr;
       Refuse(arguments, kEvery);
     }},
    {"errors.types",
     "ncclAllReduce ncclReduceScatter ncclReduce ncclBroadcast ncclBcast ncclGather "
     "ncclScatter ncclSend ncclRecv ncclAllGather ncclAlltoAll",
     kPage, "errors table: ncclInvalidArgument, an argument is invalid",
     [] {
       for (int type : {-1, 12, 1000}) {
         Arguments arguments;
         arguments.type = static_cast<ncclDataType_t>(type);
         Refuse(arguments, kEvery);
       }
     }},
    {"errors.roots", "ncclReduce ncclBroadcast ncclBcast ncclGather ncclScatter", kPage,
     "errors (3): a NULL pointer or an out-of-bounds value",
     [] {
       for (int root : {-1, TheWorld().size, 1 << 30}) {
         Arguments arguments;
         arguments.root = root;
         Refuse(arguments, kRooted);
       }
     }},
    {"errors.operations", "ncclAllReduce ncclReduceScatter ncclReduce", kPage,
     "errors table: ncclInvalidArgument, individual group behavior",
     [] {
       for (int op : {-1, 0x7fffff}) {
         Arguments arguments;
         arguments.op = static_cast<ncclRedOp_t>(op);
         Refuse(arguments, kReducing);
       }
     }},
    {"errors.every_call", "ncclGetErrorString", kPage,
     "errors: all NCCL calls return a NCCL error code",
     [] {
       int value = 0;
       for (ncclResult_t result :
            {ncclGetVersion(&value), ncclGetVersion(nullptr), ncclGroupEnd()})
         EXPECT_THAT(result >= 0 && result < ncclNumResults);
     },
     kNoDevice},
    {"errors.success", "ncclAllReduce", kPage, "errors table: ncclSuccess, no error",
     [] {
       const Buffer buffer(Ints{1});
       EXPECT_CODE(ncclSuccess,
                   ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum,
                                 TheWorld().comm, TheWorld().stream));
     }},
    {"errors.no_effect", "ncclAllReduce", kPage,
     "errors (3): when it is returned, the NCCL call had no effect",
     [] {
       // A call that failed is no member of the sequence of calls.
       const Buffer buffer(Ints{1});
       if (TheWorld().rank == 0)
         EXPECT_CODE(
             ncclInvalidArgument,
             ncclAllReduce(buffer.at(), buffer.at(), 1, static_cast<ncclDataType_t>(77),
                           ncclSum, TheWorld().comm, TheWorld().stream));
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"errors.still_functioning", "ncclBroadcast", kPage,
     "errors (3): the communicator is still functioning normally",
     [] {
       Arguments arguments;
       arguments.root = -1;
       Refuse(arguments, kRooted);
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"errors.continue_or_abort", "ncclCommAbort", kPage,
     "errors (3): call ncclCommAbort or continue as if it did not happen",
     [] {
       Comm comm = Duplicate();
       Arguments arguments;
       arguments.comm = comm.get();
       arguments.root = -1;
       Refuse(arguments, kRooted);
       EXPECT_OK(ncclCommAbort(comm.Release()));
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"errors.group_state", "ncclGroupStart ncclGroupEnd", kPage,
     "errors (3): the group state remains unchanged",
     [] {
       EXPECT_OK(ncclGroupStart());
       Arguments arguments;
       arguments.comm = nullptr;
       Refuse(arguments, kReducing);
       static_cast<void>(ncclGroupEnd());
       EXPECT_CODE(ncclInvalidUsage, ncclGroupEnd());
     }},
    {"errors.usage", "ncclGroupEnd", kPage,
     "errors (4): an incorrect usage of the NCCL API",
     [] {
       EXPECT_CODE(ncclInvalidUsage, ncclGroupEnd());
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"errors.recreate", "ncclCommAbort ncclCommInitRank", kPage,
     "errors (5): call ncclCommAbort and re-create the communicator",
     [] {
       Comm comm = FromNewId();
       EXPECT_OK(ncclCommAbort(comm.Release()));
       EXPECT_THAT(Works(FromNewId().get()));
     }},
    {"errors.no_elements",
     "ncclAllReduce ncclReduceScatter ncclReduce ncclBroadcast ncclBcast ncclGather "
     "ncclScatter ncclAllGather ncclAlltoAll",
     "usage/collectives", "Collectives: the same count to form a complete operation",
     NoElements},
    {"errors.no_elements_check", "ncclAllReduce", kPage,
     "errors table: ncclInvalidArgument, error handling none",
     [] {
       // Arguments are checked all the same.
       EXPECT_CODE(ncclInvalidArgument,
                   ncclBroadcast(nullptr, nullptr, 0, ncclInt, -1, TheWorld().comm,
                                 TheWorld().stream));
     }},
    {"errors.in_progress", "ncclCommGetAsyncError", kPage,
     "errors table: ncclInProgress, poll using ncclCommGetAsyncError",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const ncclUniqueId id = SharedId();
       Comm comm;
       const ncclResult_t result = ncclCommInitRankConfig(comm.out(), TheWorld().size,
                                                          id, TheWorld().rank, &config);
       EXPECT_THAT(result == ncclInProgress || result == ncclSuccess);
       EXPECT_OK(Settle(comm.get()));
     }},
    {"errors.wait_and_poll", "ncclCommGetAsyncError", kPage,
     "Asynchronous: call ncclCommGetAsyncError while waiting",
     [] {
       const Buffer buffer(Ints{1});
       EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum,
                               TheWorld().comm, TheWorld().stream));
       cudaError_t state = cudaErrorNotReady;
       while (state == cudaErrorNotReady) {
         ncclResult_t health = ncclInternalError;
         EXPECT_OK(ncclCommGetAsyncError(TheWorld().comm, &health));
         EXPECT_THAT(health == ncclSuccess);
         state = cudaStreamQuery(TheWorld().stream);
       }
       EXPECT_CUDA(state);
       EXPECT_THAT(buffer.Values<int>()[0] == TheWorld().size);
     }},
    {"errors.healthy", "ncclCommGetAsyncError", "nccl.h",
     "ncclCommGetAsyncError: whether comm encountered asynchronous errors",
     [] {
       ncclResult_t health = ncclInternalError;
       EXPECT_OK(ncclCommGetAsyncError(TheWorld().comm, &health));
       EXPECT_THAT(health == ncclSuccess);
     }},
    {"errors.stays", "ncclCommGetAsyncError ncclCommAbort", kPage,
     "errors table: ncclInvalidArgument, abort the communicator",
     [] {
       ncclConfig_t config = NonblockingConfig();
       Comm comm = FromNewId(&config);
       const Buffer buffer(Ints{1});
       EXPECT_CODE(ncclInvalidArgument,
                   ncclBroadcast(buffer.at(), buffer.at(), 1, ncclInt, TheWorld().size,
                                 comm.get(), TheWorld().stream));
       ncclResult_t health = ncclSuccess;
       EXPECT_OK(ncclCommGetAsyncError(comm.get(), &health));
       EXPECT_THAT(health == ncclInvalidArgument);
       EXPECT_CODE(ncclInvalidArgument,
                   ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum,
                                 comm.get(), TheWorld().stream));
       EXPECT_OK(ncclCommAbort(comm.Release()));
     }},
    {"errors.async_arguments", "ncclCommGetAsyncError", kPage,
     "errors (3): ncclInvalidArgument, an argument value is incorrect",
     [] {
       ncclResult_t health;
       EXPECT_CODE(ncclInvalidArgument, ncclCommGetAsyncError(nullptr, &health));
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommGetAsyncError(TheWorld().comm, nullptr));
     }},
    {"fault.abort_then_new", "ncclCommAbort ncclCommInitRank", kPage,
     "Fault: ncclCommAbort to free all resources, then a new communicator",
     [] {
       for (int i = 0; i < 2; ++i) {
         Comm comm = FromNewId();
         EXPECT_THAT(Works(comm.get()));
         EXPECT_OK(ncclCommAbort(comm.Release()));
       }
     }},
    {"fault.nonblocking_calls", "ncclCommInitRankConfig ncclAllReduce", kPage,
     "Fault: after nonblocking is set, all NCCL calls become nonblocking",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const Comm comm = FromNewId(&config);
       EXPECT_THAT(Works(comm.get()));
       const Comm child = Duplicate(comm.get());
       EXPECT_OK(Settle(child.get()));
       EXPECT_THAT(Works(child.get()));
     }},
    {"fault.abort_nonblocking", "ncclCommAbort", kPage,
     "Fault: ncclCommAbort can be called at any point, in communication",
     [] {
       ncclConfig_t config = NonblockingConfig();
       Comm comm = FromNewId(&config);
       const Buffer buffer(Ints{1});
       const ncclResult_t result =
           ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum, comm.get(),
                         TheWorld().stream);
       EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       EXPECT_OK(ncclCommAbort(comm.Release()));
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"fault.abort_in_init", "ncclCommAbort ncclCommInitRankConfig", kPage,
     "Fault: ncclCommAbort at any point, during initialization",
     [] {
       // The other rank of this communicator never comes.
       ncclConfig_t config = NonblockingConfig();
       ncclUniqueId id;
       EXPECT_OK(ncclGetUniqueId(&id));
       Comm comm;
       EXPECT_CODE(ncclInProgress,
                   ncclCommInitRankConfig(comm.out(), 2, id, 0, &config));
       EXPECT_OK(ncclCommAbort(comm.Release()));
     },
     kEveryRank,
     "a rank other than 0 is index 0 of a communicator as large as the job"},
    {"fault.nonblocking_split", "ncclCommSplit ncclCommGetAsyncError", kPage,
     "Fault: initialize and split a communicator in a non-blocking manner",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const Comm comm = FromNewId(&config);
       Comm child;
       const ncclResult_t result =
           ncclCommSplit(comm.get(), 0, TheWorld().rank, child.out(), nullptr);
       EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       EXPECT_OK(Settle(comm.get()));
       EXPECT_THAT(child.get() != nullptr);
       EXPECT_OK(Settle(child.get()));
     }},
};

}  // namespace

std::span<const Case> ErrorCases() {
  return kCases;
}

}  // namespace conformance
