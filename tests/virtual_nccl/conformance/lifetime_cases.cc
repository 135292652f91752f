// Finalize, destroy, abort, and what async errors say meanwhile.

#include <thread>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/comms";
constexpr char kUsage[] = "usage/communicators";
constexpr char kHeader[] = "nccl.h";

using Ints = std::vector<int>;

void Sum(const Buffer& buffer, ncclComm_t comm) {
  EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum, comm,
                          TheWorld().stream));
}

Comm Finalized() {
  Comm comm = Duplicate();
  EXPECT_OK(Settle(comm.get(), ncclCommFinalize(comm.get())));
  return comm;
}

// Work on the stream, then the end of its communicator: the result is there.
template <typename End>
void EndAfterWork(End end) {
  Comm comm = Duplicate();
  const Buffer buffer(Ints{1});
  Sum(buffer, comm.get());
  EXPECT_OK(end(comm.Release()));
  EXPECT_THAT(buffer.Values<int>()[0] == TheWorld().size);
}

constexpr Case kCases[] = {
    {"finalize.comm", "ncclCommFinalize", kPage,
     "ncclCommFinalize: finalize a communicator object",
     [] {
       Comm comm = Duplicate();
       EXPECT_OK(ncclCommFinalize(comm.get()));
       EXPECT_OK(ncclCommDestroy(comm.Release()));
     }},
    {"finalize.queries", "ncclCommCount ncclCommUserRank ncclCommCuDevice", kPage,
     "ncclCommFinalize: resources are free after ncclCommDestroy only",
     [] {
       const Comm comm = Finalized();
       int count = -1, rank = -1, device = -1;
       EXPECT_OK(ncclCommCount(comm.get(), &count));
       EXPECT_OK(ncclCommUserRank(comm.get(), &rank));
       EXPECT_OK(ncclCommCuDevice(comm.get(), &device));
       EXPECT_THAT(count == TheWorld().size && rank == TheWorld().rank &&
                   device == TheWorld().device);
     }},
    {"finalize.nonblocking", "ncclCommFinalize ncclCommGetAsyncError", kPage,
     "ncclCommFinalize: nonblocking when the communicator is",
     [] {
       ncclConfig_t config = NonblockingConfig();
       Comm comm = FromNewId(&config);
       const ncclResult_t result = ncclCommFinalize(comm.get());
       EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       EXPECT_OK(Settle(comm.get()));
     }},
    {"finalize.success_state", "ncclCommFinalize ncclCommGetAsyncError", kPage,
     "ncclCommFinalize: transitions to ncclSuccess once all is complete",
     [] {
       const Comm comm = Finalized();
       EXPECT_OK(Settle(comm.get()));
     }},
    {"finalize.query", "ncclCommFinalize ncclCommGetAsyncError", kPage,
     "ncclCommFinalize: users can query that with ncclCommGetAsyncError",
     [] {
       Comm comm = Duplicate();
       EXPECT_OK(ncclCommFinalize(comm.get()));
       ncclResult_t state = ncclInternalError;
       EXPECT_OK(ncclCommGetAsyncError(comm.get(), &state));
       EXPECT_THAT(state == ncclSuccess || state == ncclInProgress);
       EXPECT_OK(Settle(comm.get()));
     }},
    {"finalize.flushes", "ncclCommFinalize", kHeader,
     "ncclCommFinalize: flushes all issued communications",
     [] {
       Comm comm = Duplicate();
       const Buffer buffer(Ints{1});
       Sum(buffer, comm.get());
       EXPECT_OK(Settle(comm.get(), ncclCommFinalize(comm.get())));
       EXPECT_CUDA(cudaStreamQuery(TheWorld().stream));
       EXPECT_THAT(buffer.Values<int>()[0] == TheWorld().size);
     }},
    {"finalize.completes_operations", "ncclCommFinalize", kUsage,
     "Finalizing: start completing all operations in the background",
     [] {
       EndAfterWork([](ncclComm_t comm) {
         EXPECT_OK(Settle(comm, ncclCommFinalize(comm)));
         return ncclCommDestroy(comm);
       });
     }},
    {"finalize.flushed_and_freed", "ncclCommFinalize", kUsage,
     "Finalizing: uncompleted operations will be flushed and freed",
     [] {
       // A finalised communicator takes no more work.
       const Comm comm = Finalized();
       const Buffer buffer(4);
       EXPECT_THAT(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum,
                                 comm.get(), TheWorld().stream) != ncclSuccess);
       EXPECT_THAT(buffer.IsUntouched());
     },
     kTwoRanks},
    {"finalize.state_after", "ncclCommFinalize ncclCommGetAsyncError", kUsage,
     "Finalizing: once complete, the communicator is in ncclSuccess",
     [] { EXPECT_OK(Settle(Finalized().get())); }},
    {"finalize.blocking", "ncclCommFinalize", kUsage,
     "Finalizing: nonblocking if marked so; otherwise, it is blocking",
     [] {
       Comm comm = Duplicate();
       EXPECT_CODE(ncclSuccess, ncclCommFinalize(comm.get()));
       ncclResult_t state = ncclInternalError;
       EXPECT_OK(ncclCommGetAsyncError(comm.get(), &state));
       EXPECT_THAT(state == ncclSuccess);
     }},
    {"finalize.then_destroy", "ncclCommFinalize ncclCommDestroy", kHeader,
     "ncclCommFinalize: then destroy frees the rest without blocking",
     [] {
       Comm comm = Finalized();
       EXPECT_OK(ncclCommDestroy(comm.Release()));
     }},
    {"finalize.twice", "ncclCommFinalize", kUsage,
     "errors (3): the application can continue as if it did not happen",
     [] {
       const Comm comm = Finalized();
       EXPECT_CODE(ncclInvalidArgument, ncclCommFinalize(comm.get()));
     }},
    {"finalize.null", "ncclCommFinalize ncclCommDestroy ncclCommAbort", kPage,
     "ncclCommDestroy: destroy a communicator object",
     [] {
       EXPECT_OK(ncclCommFinalize(nullptr));
       EXPECT_OK(ncclCommDestroy(nullptr));
       EXPECT_OK(ncclCommAbort(nullptr));
     },
     kNoDevice},
    {"destroy.after_success", "ncclCommDestroy ncclCommFinalize", kPage,
     "ncclCommDestroy: the state becomes ncclSuccess before",
     [] {
       ncclConfig_t config = NonblockingConfig();
       Comm comm = FromNewId(&config);
       EXPECT_OK(Settle(comm.get(), ncclCommFinalize(comm.get())));
       EXPECT_OK(Settle(comm.get()));
       EXPECT_OK(ncclCommDestroy(comm.Release()));
     }},
    {"destroy.recommended", "ncclCommDestroy ncclCommFinalize", kPage,
     "ncclCommDestroy: recommended to finalize and then destroy",
     [] {
       for (int i = 0; i < 3; ++i)
         Finalized();
     }},
    {"destroy.finalizes", "ncclCommDestroy", kPage,
     "ncclCommDestroy: will call ncclCommFinalize internally",
     [] { EndAfterWork([](ncclComm_t comm) { return ncclCommDestroy(comm); }); }},
    {"destroy.local", "ncclCommDestroy ncclCommFinalize", kPage,
     "ncclCommDestroy: a purely local operation after ncclCommFinalize",
     [] {
       // Ranks destroy at different points of their programs.
       Comm comm = Finalized();
       if (TheWorld().rank % 2 == 0)
         EXPECT_OK(ncclCommDestroy(comm.Release()));
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"destroy.all_ranks", "ncclCommDestroy", kPage,
     "ncclCommDestroy: an intra-node collective, all ranks call",
     [] {
       Comm one = Duplicate(), other = Duplicate();
       EXPECT_OK(ncclCommDestroy(one.Release()));
       EXPECT_OK(ncclCommDestroy(other.Release()));
     }},
    {"destroy.frees", "ncclCommDestroy", kUsage,
     "Destroying: will free the resources of the communicator and return",
     [] {
       size_t before = 0, after = 0, total = 0;
       Duplicate();
       EXPECT_CUDA(cudaMemGetInfo(&before, &total));
       for (int i = 0; i < 16; ++i)
         Duplicate();
       EXPECT_CUDA(cudaMemGetInfo(&after, &total));
       EXPECT_THAT(after + (size_t{64} << 20) > before);
     }},
    {"destroy.nonblocking", "ncclCommDestroy", kUsage,
     "Destroying: nonblocking if the state is ncclSuccess",
     [] {
       Comm comm = Finalized();
       ncclResult_t state = ncclInternalError;
       EXPECT_OK(ncclCommGetAsyncError(comm.get(), &state));
       EXPECT_THAT(state == ncclSuccess);
       EXPECT_OK(ncclCommDestroy(comm.Release()));
     }},
    {"destroy.local_resources", "ncclCommDestroy", kHeader,
     "ncclCommDestroy: frees local resources of the communicator object",
     [] {
       Comm parent = Duplicate();
       const Comm child = Duplicate(parent.get());
       EXPECT_OK(ncclCommDestroy(parent.Release()));
       EXPECT_THAT(Works(child.get()) && Works(TheWorld().comm));
     }},
    {"destroy.other_thread", "ncclCommDestroy", "usage/threadsafety",
     "Threads: safe to operate a communicator from multiple threads",
     [] {
       static ncclComm_t comm;
       comm = Duplicate().Release();
       std::thread([] {
         EXPECT_CUDA(cudaSetDevice(TheWorld().device));
         EXPECT_OK(ncclCommDestroy(comm));
       }).join();
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"destroy.any_order", "ncclCommDestroy", kUsage,
     "Destroying: the next step is to free all resources",
     [] {
       Comm comms[] = {Duplicate(), Duplicate(), Duplicate()};
       for (int i : {1, 0, 2})
         EXPECT_OK(ncclCommDestroy(comms[i].Release()));
     }},
    {"abort.frees", "ncclCommAbort", kPage,
     "ncclCommAbort: frees resources that are allocated to comm",
     [] {
       Comm comm = Duplicate();
       EXPECT_THAT(Works(comm.get()));
       EXPECT_OK(ncclCommAbort(comm.Release()));
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"abort.all_ranks", "ncclCommAbort", kPage,
     "ncclCommAbort: all active ranks are required to call",
     [] {
       for (int i = 0; i < 3; ++i) {
         Comm comm = Duplicate();
         EXPECT_OK(ncclCommAbort(comm.Release()));
       }
     }},
    {"abort.uncompleted", "ncclCommAbort", kHeader,
     "ncclCommAbort: aborts operations that might still be running",
     [] {
       Comm comm = Duplicate();
       const Buffer buffer(Ints{1});
       Sum(buffer, comm.get());
       EXPECT_OK(ncclCommAbort(comm.Release()));
       Synchronize();
       EXPECT_THAT(Works(TheWorld().comm));
     }},
    {"abort.finalized", "ncclCommAbort ncclCommFinalize", kUsage,
     "Fault: ncclCommAbort at any point, finalizing the communicator",
     [] {
       Comm comm = Finalized();
       EXPECT_OK(ncclCommAbort(comm.Release()));
     }},
    {"async.stream_operations", "ncclCommGetAsyncError ncclAllReduce", kPage,
     "ncclCommGetAsyncError: success as soon as posted on the stream",
     [] {
       const Buffer buffer(Ints{1});
       Sum(buffer, TheWorld().comm);
       ncclResult_t state = ncclInternalError;
       EXPECT_OK(ncclCommGetAsyncError(TheWorld().comm, &state));
       EXPECT_THAT(state == ncclSuccess);
       Synchronize();
     }},
    {"async.host_operations", "ncclCommGetAsyncError ncclCommFinalize", kPage,
     "ncclCommGetAsyncError: operations without stream are complete",
     [] {
       Comm comm = Duplicate();
       EXPECT_OK(ncclCommFinalize(comm.get()));
       EXPECT_OK(Settle(comm.get()));
     }},
    {"async.progress", "ncclCommGetAsyncError", kPage,
     "ncclCommGetAsyncError: queries the progress and potential errors",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const Comm comm = FromNewId(&config);
       EXPECT_OK(Settle(comm.get()));
       EXPECT_THAT(Works(comm.get()));
     }},
    {"async.until_success", "ncclCommGetAsyncError", kPage,
     "ncclCommGetAsyncError: query until success before another call",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const Comm comm = FromNewId(&config);
       for (int i = 0; i < 4; ++i) {
         const Buffer buffer(Ints{1});
         EXPECT_OK(
             Settle(comm.get(), ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt,
                                              ncclSum, comm.get(), TheWorld().stream)));
         EXPECT_THAT(buffer.Values<int>()[0] == TheWorld().size);
       }
     }},
};

}  // namespace

std::span<const Case> LifetimeCases() {
  return kCases;
}

}  // namespace conformance
