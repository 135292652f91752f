// Collectives whose buffers hold a block for each rank, and the chapter "In-place".

#include <algorithm>

#include "tests/virtual_nccl/conformance/collective_calls.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/colls";
constexpr char kUsage[] = "usage/collectives";

constexpr Case kCases[] = {
    {"all_gather.offsets", "ncclAllGather", kPage,
     "ncclAllGather: receiving data from rank i at offset i*sendcount",
     [] {
       Buffer send(Own(3)), receive = Blank(3 * Size());
       AllGather(send.at(), receive.at(), 3);
       const auto values = receive.Values<int>();
       for (int rank : TheWorld().present)
         EXPECT_THAT(values[static_cast<size_t>(rank) * 3 + 2] == 100 * rank + 2);
     }},
    {"all_gather.sizes", "ncclAllGather", kPage,
     "ncclAllGather: the receive count is nranks*sendcount",
     [] {
       Buffer send(Own(2)), receive = Blank(2 * Size() + 1);
       AllGather(send.at(), receive.at(), 2);
       Ints all = Everyones(2);
       all.push_back(static_cast<int>(0xa5a5a5a5));
       EXPECT_THAT(Holds(receive, all));
     },
     kEveryRank},
    {"all_gather.in_place", "ncclAllGather", kPage,
     "ncclAllGather: in-place if sendbuff == recvbuff + rank*sendcount",
     [] {
       const size_t own = static_cast<size_t>(TheWorld().rank) * 3 * sizeof(int);
       Buffer buffer = Blank(3 * Size());
       buffer.Write(Own(3).data(), 3 * sizeof(int), own);
       AllGather(buffer.at(own), buffer.at(), 3);
       EXPECT_THAT(Holds(buffer, Everyones(3)));
     },
     kEveryRank},
    {"all_gather.all_ranks", "ncclAllGather", kUsage,
     "AllGather: distributes the output buffer of k*N to all ranks",
     [] {
       Buffer send(Own(1)), receive = Blank(Size());
       AllGather(send.at(), receive.at(), 1);
       EXPECT_THAT(Holds(receive, Everyones(1)));
     },
     kEveryRank},
    {"all_gather.rank_order", "ncclAllGather ncclCommSplit", kUsage,
     "AllGather: the output is ordered by the rank index",
     [] {
       Comm reversed;
       EXPECT_OK(ncclCommSplit(TheWorld().comm, 0, -TheWorld().rank, reversed.out(),
                               nullptr));
       Buffer send(Own(1)), receive = Blank(Size());
       EXPECT_OK(ncclAllGather(send.at(), receive.at(), 1, ncclInt, reversed.get(),
                               TheWorld().stream));
       Ints expected = Everyones(1);
       std::reverse(expected.begin(), expected.end());
       EXPECT_THAT(Holds(receive, expected));
     },
     kEveryRank},
    {"all_gather.after_reduce_scatter", "ncclReduceScatter ncclAllGather ncclAllReduce",
     kUsage, "AllGather: ReduceScatter, then AllGather, is the AllReduce",
     [] {
       Buffer data(Own(4 * Size())), part = Blank(4), all = Blank(4 * Size());
       ReduceScatter(data.at(), part.at(), 4);
       AllGather(part.at(), all.at(), 4);
       AllReduce(data.at(), data.at(), 4 * Size());
       EXPECT_THAT(all.Bytes() == data.Bytes());
     },
     kEveryRank},
    {"reduce_scatter.block", "ncclReduceScatter", kPage,
     "ncclReduceScatter: recvbuff on rank i has the i-th block",
     [] {
       Buffer send(Count(3 * Size(), 0)), receive = Blank(3);
       ReduceScatter(send.at(), receive.at(), 3);
       EXPECT_THAT(Holds(receive, BlockSummed(3, TheWorld().rank)));
     }},
    {"reduce_scatter.sizes", "ncclReduceScatter", kPage,
     "ncclReduceScatter: the send count is nranks*recvcount",
     [] {
       Buffer send(Count(2 * Size(), 0)), receive = Blank(3);
       ReduceScatter(send.at(), receive.at(), 2);
       Ints block = BlockSummed(2, TheWorld().rank);
       block.push_back(static_cast<int>(0xa5a5a5a5));
       EXPECT_THAT(Holds(receive, block));
     }},
    {"reduce_scatter.in_place", "ncclReduceScatter", kPage,
     "ncclReduceScatter: in-place if recvbuff == sendbuff + rank*recvcount",
     [] {
       const size_t own = static_cast<size_t>(TheWorld().rank) * 2;
       Buffer buffer(Count(2 * Size(), 0));
       ReduceScatter(buffer.at(), buffer.at(own * sizeof(int)), 2);
       const auto values = buffer.Values<int>();
       const Ints block = BlockSummed(2, TheWorld().rank);
       EXPECT_THAT(values[own] == block[0] && values[own + 1] == block[1]);
     }},
    {"reduce_scatter.equal_blocks", "ncclReduceScatter", kUsage,
     "ReduceScatter: scattered in equal-sized blocks between ranks",
     [] {
       Buffer send(Own(Size())), receive = Blank(1);
       ReduceScatter(send.at(), receive.at(), 1);
       EXPECT_THAT(
           Holds(receive, {OwnSummed(Size())[static_cast<size_t>(TheWorld().rank)]}));
     },
     kEveryRank},
    {"reduce_scatter.by_rank", "ncclReduceScatter ncclCommSplit", kUsage,
     "ReduceScatter: the ranks determine the data layout",
     [] {
       Comm reversed;
       EXPECT_OK(ncclCommSplit(TheWorld().comm, 0, -TheWorld().rank, reversed.out(),
                               nullptr));
       Buffer send(Count(Size(), 0)), receive = Blank(1);
       EXPECT_OK(ncclReduceScatter(send.at(), receive.at(), 1, ncclInt, ncclSum,
                                   reversed.get(), TheWorld().stream));
       EXPECT_THAT(Holds(receive, BlockSummed(1, Last() - TheWorld().rank)));
     },
     kEveryRank},
    {"all_to_all.takes", "ncclAlltoAll", kPage,
     "ncclAlltoAll: data to destination j is taken from sendbuff+j*count",
     [] {
       Buffer send(Own(2 * Size())), receive = Blank(2 * Size());
       AllToAll(send.at(), receive.at(), 2);
       const auto values = receive.Values<int>();
       for (int from : TheWorld().present)
         EXPECT_THAT(values[static_cast<size_t>(from) * 2 + 1] ==
                     100 * from + 2 * TheWorld().rank + 1);
     }},
    {"all_to_all.sizes", "ncclAlltoAll", kPage,
     "ncclAlltoAll: send and receive count is nranks*count",
     [] {
       Buffer send(Own(Size())), receive = Blank(Size() + 1);
       AllToAll(send.at(), receive.at(), 1);
       EXPECT_THAT(receive.Values<int>().back() == static_cast<int>(0xa5a5a5a5));
       EXPECT_THAT(Holds(send, Own(Size())));
     }},
    {"all_to_all.exchange", "ncclAlltoAll", kUsage,
     "AlltoAll: the i-th chunk of N values comes from source rank i",
     [] {
       Buffer send(Own(Size())), receive = Blank(Size());
       AllToAll(send.at(), receive.at(), 1);
       Ints column;
       for (int from = 0; from < TheWorld().size; ++from)
         column.push_back(100 * from + TheWorld().rank);
       EXPECT_THAT(Holds(receive, column));
     },
     kEveryRank},
    {"gather.placed", "ncclGather", kPage,
     "ncclGather: on root, data from rank i is at recvbuff + i*count",
     [] {
       Buffer send(Own(2)), receive = Blank(2 * Size());
       Gather(send.at(), receive.at(), 2, Last());
       if (IsRoot(Last()))
         EXPECT_THAT(Holds(receive, Everyones(2)));
     },
     kEveryRank},
    {"gather.unused", "ncclGather", kPage,
     "ncclGather: on non-root ranks, recvbuff is not used",
     [] {
       Buffer send(Own(2)), receive = Blank(2 * Size());
       Gather(send.at(), IsRoot(0) ? receive.at() : nullptr, 2, 0);
       EXPECT_THAT(Holds(send, Own(2)));
     }},
    {"gather.sizes", "ncclGather", kPage,
     "ncclGather: the receive count is nranks*count",
     [] {
       Buffer send(Own(2)), receive = Blank(2 * Size() + 1);
       Gather(send.at(), receive.at(), 2, 0);
       EXPECT_THAT(receive.Values<int>().back() == static_cast<int>(0xa5a5a5a5));
     }},
    {"gather.in_place", "ncclGather", kPage,
     "ncclGather: in-place if sendbuff == recvbuff + root*count",
     [] {
       Buffer buffer = Blank(Size()), send(Own(1));
       const size_t own = static_cast<size_t>(Last()) * sizeof(int);
       buffer.Write(Own(1).data(), sizeof(int), own);
       Gather(IsRoot(Last()) ? buffer.at(own) : send.at(), buffer.at(), 1, Last());
       if (IsRoot(Last()))
         EXPECT_THAT(Holds(buffer, Everyones(1)));
     },
     kEveryRank},
    {"gather.output", "ncclGather", kUsage,
     "Gather: from k ranks into an output buffer on root of size k*N",
     [] {
       Buffer send(Own(3)), receive = Blank(3 * Size());
       Gather(send.at(), receive.at(), 3, 0);
       if (IsRoot(0)) {
         const auto values = receive.Values<int>();
         for (int rank : TheWorld().present)
           EXPECT_THAT(values[static_cast<size_t>(rank) * 3] == 100 * rank);
       }
     }},
    {"gather.root_is_a_rank", "ncclGather", kUsage,
     "Gather: the root argument is one of the ranks, not a device",
     [] {
       Buffer buffer = Blank(1);
       EXPECT_CODE(ncclInvalidArgument,
                   ncclGather(buffer.at(), buffer.at(), 1, ncclInt, TheWorld().size,
                              TheWorld().comm, TheWorld().stream));
     }},
    {"scatter.sends", "ncclScatter", kPage,
     "ncclScatter: on root, sendbuff + i*count is sent to rank i",
     [] {
       Buffer send(Own(2 * Size())), receive = Blank(2);
       Scatter(send.at(), receive.at(), 2, 0);
       EXPECT_THAT(Holds(receive, Count(2, 2 * TheWorld().rank)));
     }},
    {"scatter.unused", "ncclScatter", kPage,
     "ncclScatter: on non-root ranks, sendbuff is not used",
     [] {
       Buffer send(Own(Size())), receive = Blank(1);
       Scatter(IsRoot(0) ? send.at() : nullptr, receive.at(), 1, 0);
       EXPECT_THAT(Holds(receive, {TheWorld().rank}));
     }},
    {"scatter.sizes", "ncclScatter", kPage,
     "ncclScatter: the send count is nranks*count",
     [] {
       Buffer send(Own(3 * Size())), receive = Blank(4);
       Scatter(send.at(), receive.at(), 3, 0);
       EXPECT_THAT(receive.Values<int>().back() == static_cast<int>(0xa5a5a5a5));
     }},
    {"scatter.in_place", "ncclScatter", kPage,
     "ncclScatter: in-place if recvbuff == sendbuff + root*count",
     [] {
       Buffer send(Own(Size())), receive = Blank(1);
       const size_t own = static_cast<size_t>(Last()) * sizeof(int);
       Scatter(send.at(), IsRoot(Last()) ? send.at(own) : receive.at(), 1, Last());
       if (IsRoot(Last()))
         EXPECT_THAT(Holds(send, Own(Size())));
       else
         EXPECT_THAT(Holds(receive, {100 * Last() + TheWorld().rank}));
     }},
    {"scatter.distributes", "ncclScatter", kUsage,
     "Scatter: N*k values from root, each rank receiving N values",
     [] {
       Buffer send(Own(4 * Size())), receive = Blank(4);
       Scatter(send.at(), receive.at(), 4, Last());
       EXPECT_THAT(Holds(receive, Count(4, 100 * Last() + 4 * TheWorld().rank)));
     }},
    {"scatter.root_is_a_rank", "ncclScatter", kUsage,
     "Scatter: the root argument is one of the ranks, not a device",
     [] {
       Buffer buffer = Blank(1);
       EXPECT_CODE(ncclInvalidArgument,
                   ncclScatter(buffer.at(), buffer.at(), 1, ncclInt, -1,
                               TheWorld().comm, TheWorld().stream));
     }},
    {"in_place.no_value", "ncclAllReduce", "usage/inplace",
     "In-place: no special in-place value to replace pointers",
     [] {
       // One element apart is not in place: the source is read as it was.
       Buffer buffer(Ints{1, 2, 3, 4});
       Buffer apart = Blank(4);
       AllReduce(buffer.at(), apart.at(), 4);
       AllReduce(buffer.at(), buffer.at(), 4);
       EXPECT_THAT(apart.Bytes() == buffer.Bytes());
     }},
    {"in_place.same_place", "ncclBroadcast ncclReduce ncclAllReduce", "usage/inplace",
     "In-place: final results at the same place as initial data",
     [] {
       Buffer buffer(Ints{1});
       AllReduce(buffer.at(), buffer.at(), 1);
       Broadcast(buffer.at(), buffer.at(), 1, 0);
       EXPECT_THAT(Holds(buffer, {TheWorld().size}));
     }},
    {"in_place.rank_offset", "ncclReduceScatter ncclAllGather", "usage/inplace",
     "In-place: the per-rank pointer at the rank offset of the buffer",
     [] {
       const size_t own = static_cast<size_t>(TheWorld().rank) * sizeof(int);
       Buffer buffer(Ints(Size(), 1));
       ReduceScatter(buffer.at(), buffer.at(own), 1);
       AllGather(buffer.at(own), buffer.at(), 1);
       EXPECT_THAT(Holds(buffer, Ints(Size(), TheWorld().size)));
     }},

};

}  // namespace

std::span<const Case> BlockCases() {
  return kCases;
}

}  // namespace conformance
