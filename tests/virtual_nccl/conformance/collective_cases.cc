// AllReduce, Broadcast, Reduce: who gives, who gets, what is in place.
//
// data_cases.cc compares every byte of every type; here each sentence has its own
// check.

#include <algorithm>

#include "tests/virtual_nccl/conformance/collective_calls.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/colls";
constexpr char kUsage[] = "usage/collectives";
constexpr char kHeader[] = "nccl.h";

constexpr Case kCases[] = {
    {"all_reduce.count", "ncclAllReduce", kPage,
     "ncclAllReduce: data arrays of length count in sendbuff",
     [] {
       Buffer send(Own(8)), receive = Blank(8);
       AllReduce(send.at(), receive.at(), 5);
       auto values = receive.Values<int>();
       EXPECT_THAT(
           std::equal(values.begin(), values.begin() + 5, OwnSummed(5).begin()));
       EXPECT_THAT(values[5] == static_cast<int>(0xa5a5a5a5));
     },
     kEveryRank},
    {"all_reduce.in_place", "ncclAllReduce", kPage,
     "ncclAllReduce: in-place will happen if sendbuff == recvbuff",
     [] {
       Buffer buffer(Own(9));
       AllReduce(buffer.at(), buffer.at(), 9);
       EXPECT_THAT(Holds(buffer, OwnSummed(9)));
     },
     kEveryRank},
    {"all_reduce.send_is_kept", "ncclAllReduce", kHeader,
     "ncclAllReduce: reduces sendbuff, leaves copies on recvbuff",
     [] {
       Buffer send(Own(4)), receive = Blank(4);
       AllReduce(send.at(), receive.at(), 4);
       EXPECT_THAT(Holds(send, Own(4)));
     }},
    {"all_reduce.every_rank", "ncclAllReduce", kUsage,
     "AllReduce: stores the result in the receive buffer of every rank",
     [] {
       Buffer send(Own(3)), receive = Blank(3);
       AllReduce(send.at(), receive.at(), 3);
       EXPECT_THAT(Holds(receive, OwnSummed(3)));
     },
     kEveryRank},
    {"broadcast.from_root", "ncclBroadcast", kPage,
     "ncclBroadcast: from sendbuff on root to all ranks' recvbuff",
     [] {
       Buffer send(Own(6)), receive = Blank(6);
       Broadcast(send.at(), receive.at(), 6, Last());
       EXPECT_THAT(Holds(receive, Own(6, Last())));
     }},
    {"broadcast.send_ignored", "ncclBroadcast", kPage,
     "ncclBroadcast: sendbuff only used on root, ignored for others",
     [] {
       Buffer send(Own(6)), receive = Blank(6);
       Broadcast(IsRoot(0) ? send.at() : nullptr, receive.at(), 6, 0);
       EXPECT_THAT(Holds(receive, Own(6, 0)));
     }},
    {"broadcast.in_place", "ncclBroadcast", kPage,
     "ncclBroadcast: in-place will happen if sendbuff == recvbuff",
     [] {
       Buffer buffer(Own(6));
       Broadcast(buffer.at(), buffer.at(), 6, Last());
       EXPECT_THAT(Holds(buffer, Own(6, Last())));
     }},
    {"broadcast.legacy", "ncclBcast", kPage,
     "ncclBcast: legacy in-place version of ncclBroadcast",
     [] {
       Buffer buffer(Own(5));
       EXPECT_OK(
           ncclBcast(buffer.at(), 5, ncclInt, 0, TheWorld().comm, TheWorld().stream));
       EXPECT_THAT(Holds(buffer, Own(5, 0)));
     }},
    {"broadcast.legacy_equivalent", "ncclBcast ncclBroadcast", kPage,
     "ncclBcast: equivalent to ncclBroadcast(buff, buff, ...)",
     [] {
       Buffer one(Own(5)), other(Own(5));
       EXPECT_OK(
           ncclBcast(one.at(), 5, ncclInt, Last(), TheWorld().comm, TheWorld().stream));
       Broadcast(other.at(), other.at(), 5, Last());
       EXPECT_THAT(one.Bytes() == other.Bytes());
     }},
    {"broadcast.legacy_implicit", "ncclBcast", kHeader,
     "ncclBcast: this operation is implicitly in place",
     [] {
       Buffer buffer(Own(2));
       EXPECT_OK(
           ncclBcast(buffer.at(), 1, ncclInt, 0, TheWorld().comm, TheWorld().stream));
       EXPECT_THAT(Holds(buffer, {0, Own(2)[1]}));
     }},
    {"broadcast.all_ranks", "ncclBroadcast", kUsage,
     "Broadcast: copies an N-element buffer from root to all the ranks",
     [] {
       for (int root : TheWorld().present) {
         Buffer send(Own(3)), receive = Blank(3);
         Broadcast(send.at(), receive.at(), 3, root);
         EXPECT_THAT(Holds(receive, Own(3, root)));
       }
     }},
    {"broadcast.root_is_a_rank", "ncclBroadcast ncclCommSplit", kUsage,
     "Broadcast: the root argument is one of the ranks, not a device",
     [] {
       // Ranks the other way round: root 0 is the last process.
       Comm reversed;
       EXPECT_OK(ncclCommSplit(TheWorld().comm, 0, -TheWorld().rank, reversed.out(),
                               nullptr));
       Buffer buffer(Own(3));
       EXPECT_OK(ncclBroadcast(buffer.at(), buffer.at(), 3, ncclInt, 0, reversed.get(),
                               TheWorld().stream));
       EXPECT_THAT(Holds(buffer, Own(3, Last())));
     },
     kEveryRank},
    {"broadcast.before_it_started", "ncclBroadcast", kHeader,
     "ncclBroadcast: root is where data resides before it is started",
     [] {
       Buffer buffer(Own(2));
       EXPECT_CUDA(cudaDeviceSynchronize());  // the copy from pageable memory has ended
       EXPECT_CUDA(
           cudaMemsetAsync(buffer.at(), IsRoot(0) ? 1 : 2, 8, TheWorld().stream));
       Broadcast(buffer.at(), buffer.at(), 2, 0);
       EXPECT_THAT(Holds(buffer, {0x01010101, 0x01010101}));
     }},
    {"reduce.into_root", "ncclReduce", kPage,
     "ncclReduce: into recvbuff on the root rank",
     [] {
       Buffer send(Own(4)), receive = Blank(4);
       Reduce(send.at(), receive.at(), 4, Last());
       if (IsRoot(Last()))
         EXPECT_THAT(Holds(receive, OwnSummed(4)));
     },
     kEveryRank},
    {"reduce.others_ignored", "ncclReduce", kPage,
     "ncclReduce: recvbuff only used on root, ignored for others",
     [] {
       Buffer send(Own(4)), receive = Blank(4);
       Reduce(send.at(), receive.at(), 4, 0);
       EXPECT_THAT(IsRoot(0) || receive.IsUntouched());
     }},
    {"reduce.others_null", "ncclReduce", kHeader,
     "ncclReduce: recvbuff may be NULL on all calls except root's",
     [] {
       Buffer send(Own(4)), receive = Blank(4);
       Reduce(send.at(), IsRoot(0) ? receive.at() : nullptr, 4, 0);
       EXPECT_THAT(Holds(send, Own(4)));
     }},
    {"reduce.in_place", "ncclReduce", kPage,
     "ncclReduce: in-place will happen if sendbuff == recvbuff",
     [] {
       Buffer buffer(Own(4));
       Reduce(buffer.at(), buffer.at(), 4, 0);
       if (IsRoot(0))
         EXPECT_THAT(Holds(buffer, OwnSummed(4)));
     },
     kEveryRank},
    {"reduce.only_root", "ncclReduce ncclAllReduce", kUsage,
     "Reduce: as AllReduce, but stored only at a specified root",
     [] {
       Buffer send(Own(4)), one = Blank(4), all = Blank(4);
       Reduce(send.at(), one.at(), 4, 0);
       AllReduce(send.at(), all.at(), 4);
       EXPECT_THAT(IsRoot(0) ? one.Bytes() == all.Bytes() : one.IsUntouched());
     }},
    {"reduce.then_broadcast", "ncclReduce ncclBroadcast ncclAllReduce", kUsage,
     "Reduce: followed by a Broadcast, is equivalent to the AllReduce",
     [] {
       Buffer two(Own(7)), one(Own(7));
       Reduce(two.at(), two.at(), 7, 0);
       Broadcast(two.at(), two.at(), 7, 0);
       AllReduce(one.at(), one.at(), 7);
       EXPECT_THAT(two.Bytes() == one.Bytes());
     },
     kEveryRank},
    {"reduce.root_is_a_rank", "ncclReduce", kUsage,
     "Reduce: the root argument is one of the ranks (not a device)",
     [] {
       Buffer buffer(Own(1)), blank = Blank(1);
       for (int root : {-1, TheWorld().size})
         EXPECT_CODE(ncclInvalidArgument,
                     ncclReduce(buffer.at(), blank.at(), 1, ncclInt, ncclSum, root,
                                TheWorld().comm, TheWorld().stream));
       EXPECT_THAT(blank.IsUntouched());
     }},
    {"reduce.after_complete", "ncclReduce", kHeader,
     "ncclReduce: root is where data will reside after completion",
     [] {
       Buffer ones(Ints(3, 1)), receive = Blank(3);
       Reduce(ones.at(), receive.at(), 3, Last());
       if (IsRoot(Last()))
         EXPECT_THAT(Holds(receive, Ints(3, TheWorld().size)));
     }},
};

}  // namespace

std::span<const Case> CollectiveCases() {
  return kCases;
}

}  // namespace conformance
