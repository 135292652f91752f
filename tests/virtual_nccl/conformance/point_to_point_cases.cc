// Chapter "Point-to-point communication".

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/p2p";
constexpr char kUsage[] = "usage/p2p";
constexpr char kHeader[] = "nccl.h";

using Ints = std::vector<int>;

bool IsPresent(int rank) {
  const auto& present = TheWorld().present;
  return std::find(present.begin(), present.end(), rank) != present.end();
}

// The ring that all ranks form, in steps that lead from the first process to the
// second: ranks that are played do what processes do, relative to their own place.
int Neighbour(int direction) {
  const World& world = TheWorld();
  const int step = world.present.size() > 1 ? world.present[1] - world.present[0] : 1;
  return (world.rank + direction * step + world.size) % world.size;
}

int Next() {
  return Neighbour(1);
}

int Previous() {
  return Neighbour(-1);
}

Ints Message(int from, int to, size_t count) {
  Ints values(count);
  std::iota(values.begin(), values.end(), 10000 * from + 100 * to);
  return values;
}

Buffer Outgoing(int to, size_t count) {
  return Buffer(Message(TheWorld().rank, to, count));
}

Buffer Blank(size_t count) {
  return Buffer(count * sizeof(int));
}

void Send(const Buffer& buffer, int peer, size_t offset = 0, size_t count = 0) {
  EXPECT_OK(ncclSend(buffer.at(offset * sizeof(int)),
                     count > 0 ? count : buffer.bytes() / sizeof(int), ncclInt, peer,
                     TheWorld().comm, TheWorld().stream));
}

void Receive(const Buffer& buffer, int peer, size_t offset = 0, size_t count = 0) {
  EXPECT_OK(ncclRecv(buffer.at(offset * sizeof(int)),
                     count > 0 ? count : buffer.bytes() / sizeof(int), ncclInt, peer,
                     TheWorld().comm, TheWorld().stream));
}

// What a rank sends that is played has no bytes.
bool Came(const Buffer& buffer, int from) {
  return !IsPresent(from) ||
         buffer.Values<int>() ==
             Message(from, TheWorld().rank, buffer.bytes() / sizeof(int));
}

// Around the ring of processes, in one group.
void Ring(size_t count) {
  const Buffer out = Outgoing(Next(), count), in = Blank(count);
  EXPECT_OK(ncclGroupStart());
  Send(out, Next());
  Receive(in, Previous());
  EXPECT_OK(ncclGroupEnd());
  EXPECT_THAT(Came(in, Previous()));
}

// From the first process to the last, outside of any group.
void Ungrouped(size_t count) {
  const int first = TheWorld().present.front(), last = TheWorld().present.back();
  if (first == last)
    return;
  if (TheWorld().rank == first)
    Send(Outgoing(last, count), last);
  if (TheWorld().rank != last)
    return Synchronize();
  const Buffer in = Blank(count);
  Receive(in, first);
  EXPECT_THAT(Came(in, first));
}

void Exchange(bool receives_first) {
  std::vector<Buffer> out, in;
  for (int peer : TheWorld().present) {
    out.push_back(Outgoing(peer, 3));
    in.push_back(Blank(3));
  }
  EXPECT_OK(ncclGroupStart());
  for (size_t i = 0; i < out.size(); ++i) {
    if (receives_first)
      Receive(in[i], TheWorld().present[i]);
    Send(out[i], TheWorld().present[i]);
    if (!receives_first)
      Receive(in[i], TheWorld().present[i]);
  }
  EXPECT_OK(ncclGroupEnd());
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_THAT(Came(in[i], TheWorld().present[i]));
}

void OneToAll() {
  const int root = TheWorld().present.front();
  std::vector<Buffer> out;
  const Buffer in = Blank(4);
  for (int peer : TheWorld().present)
    out.push_back(Outgoing(peer, 4));
  EXPECT_OK(ncclGroupStart());
  if (TheWorld().rank == root)
    for (size_t i = 0; i < out.size(); ++i)
      Send(out[i], TheWorld().present[i]);
  Receive(in, root);
  EXPECT_OK(ncclGroupEnd());
  EXPECT_THAT(Came(in, root));
}

void AllToOne() {
  const int root = TheWorld().present.back();
  std::vector<Buffer> in;
  for (size_t i = 0; i < TheWorld().present.size(); ++i)
    in.push_back(Blank(4));
  const Buffer out = Outgoing(root, 4);
  EXPECT_OK(ncclGroupStart());
  if (TheWorld().rank == root)
    for (size_t i = 0; i < in.size(); ++i)
      Receive(in[i], TheWorld().present[i]);
  Send(out, root);
  EXPECT_OK(ncclGroupEnd());
  if (TheWorld().rank == root)
    for (size_t i = 0; i < in.size(); ++i)
      EXPECT_THAT(Came(in[i], TheWorld().present[i]));
}

void Neighbours() {
  // A ring both ways: with two ranks the two directions have the same peer.
  const Buffer up = Outgoing(Next(), 2), from_below = Blank(2);
  const Buffer down = Outgoing(Previous(), 2), from_above = Blank(2);
  EXPECT_OK(ncclGroupStart());
  Send(up, Next());
  Receive(from_below, Previous());
  Send(down, Previous());
  Receive(from_above, Next());
  EXPECT_OK(ncclGroupEnd());
  EXPECT_THAT(Came(from_below, Previous()) && Came(from_above, Next()));
}

void VariedSizes() {
  // To the next as many values as this rank's place says, of a type of its own.
  const size_t mine = static_cast<size_t>(TheWorld().rank % 7) + 1;
  const size_t theirs = static_cast<size_t>(Previous() % 7) + 1;
  const ncclDataType_t my_type = TheWorld().rank % 2 == 0 ? ncclInt : ncclUint32;
  const ncclDataType_t their_type = Previous() % 2 == 0 ? ncclInt : ncclUint32;
  const Buffer out = Outgoing(Next(), mine), in = Blank(theirs);
  EXPECT_OK(ncclGroupStart());
  EXPECT_OK(
      ncclSend(out.at(), mine, my_type, Next(), TheWorld().comm, TheWorld().stream));
  EXPECT_OK(ncclRecv(in.at(), theirs, their_type, Previous(), TheWorld().comm,
                     TheWorld().stream));
  EXPECT_OK(ncclGroupEnd());
  EXPECT_THAT(Came(in, Previous()));
}

// Several messages of different sizes between the same two ranks.
void SamePeerInOrder() {
  Ints all;
  for (size_t part : {1, 5, 2})
    for (int value : Message(TheWorld().rank, Next(), part))
      all.push_back(value + static_cast<int>(part));
  const Buffer out(all), in = Blank(8);
  EXPECT_OK(ncclGroupStart());
  Send(out, Next(), 0, 1);
  Receive(in, Previous(), 0, 1);
  Send(out, Next(), 1, 5);
  Receive(in, Previous(), 1, 5);
  Send(out, Next(), 6, 2);
  Receive(in, Previous(), 6, 2);
  EXPECT_OK(ncclGroupEnd());
  const auto seen = in.Values<int>();
  const int base = 10000 * Previous() + 100 * TheWorld().rank;
  if (!IsPresent(Previous()))
    return;
  EXPECT_THAT(seen[0] == base + 1 && seen[1] == base + 5 && seen[5] == base + 9 &&
              seen[6] == base + 2 && seen[7] == base + 3);
}

void EveryType() {
  for (int type = 0; type < ncclNumTypes; ++type) {
    const Buffer out = Outgoing(Next(), 24), in = Blank(24);
    const size_t count = 8;
    EXPECT_OK(ncclGroupStart());
    EXPECT_OK(ncclSend(out.at(), count, static_cast<ncclDataType_t>(type), Next(),
                       TheWorld().comm, TheWorld().stream));
    EXPECT_OK(ncclRecv(in.at(), count, static_cast<ncclDataType_t>(type), Previous(),
                       TheWorld().comm, TheWorld().stream));
    EXPECT_OK(ncclGroupEnd());
    if (IsPresent(Previous()))
      EXPECT_THAT(in.Values<int>()[0] == 10000 * Previous() + 100 * TheWorld().rank ||
                  type == ncclInt8);
    EXPECT_THAT(in.Values<int>()[23] == static_cast<int>(0xa5a5a5a5));
  }
}

void ToOneself() {
  const Buffer out = Outgoing(TheWorld().rank, 6), in = Blank(6);
  EXPECT_OK(ncclGroupStart());
  Send(out, TheWorld().rank);
  Receive(in, TheWorld().rank);
  EXPECT_OK(ncclGroupEnd());
  EXPECT_THAT(Came(in, TheWorld().rank));
}

constexpr Case kCases[] = {
    {"p2p.send", "ncclSend", kPage, "ncclSend: send data from sendbuff to rank peer",
     [] { Ungrouped(9); }, kTwoRanks | kEveryRank},
    {"p2p.receive", "ncclRecv", kPage,
     "ncclRecv: receive data from rank peer into recvbuff", [] { Ring(9); }},
    {"p2p.matching_receive", "ncclSend ncclRecv", kPage,
     "ncclSend: peer needs to call ncclRecv with the same count and type",
     [] { Ring(1); }},
    {"p2p.matching_send", "ncclSend ncclRecv", kPage,
     "ncclRecv: peer needs to call ncclSend with the same count and type", VariedSizes,
     kEveryRank},
    {"p2p.blocks_the_gpu", "ncclSend ncclRecv", kPage,
     "ncclSend: this operation is blocking for the GPU",
     [] {
       // What follows on the stream sees what came.
       const Buffer out = Outgoing(Next(), 4), in = Blank(4), copy = Blank(4);
       EXPECT_OK(ncclGroupStart());
       Send(out, Next());
       Receive(in, Previous());
       EXPECT_OK(ncclGroupEnd());
       EXPECT_CUDA(cudaMemcpyAsync(copy.at(), in.at(), 16, cudaMemcpyDeviceToDevice,
                                   TheWorld().stream));
       EXPECT_THAT(Came(copy, Previous()));
     }},
    {"p2p.fused", "ncclSend ncclRecv ncclGroupStart ncclGroupEnd", kPage,
     "ncclSend: concurrent operations must be fused within a group",
     [] { Exchange(false); }, kEveryRank},
    {"p2p.fused_receives", "ncclSend ncclRecv ncclGroupStart ncclGroupEnd", kPage,
     "ncclRecv: concurrent operations must be fused within a group",
     [] { Exchange(true); }, kEveryRank},
    {"p2p.arbitrary_data", "ncclSend ncclRecv", kPage,
     "Two-sided: when ranks need to send and receive arbitrary data", EveryType},
    {"p2p.both_participate", "ncclSend ncclRecv", kPage,
     "Two-sided: both sender and receiver must explicitly participate",
     [] { Ungrouped(1000); }, kTwoRanks | kEveryRank},
    {"p2p.header_send", "ncclSend", kHeader,
     "ncclSend: send data from sendbuff to rank peer",
     [] {
       const Buffer out = Outgoing(Next(), 3), in = Blank(3);
       EXPECT_OK(ncclGroupStart());
       Send(out, Next());
       Receive(in, Previous());
       EXPECT_OK(ncclGroupEnd());
       Synchronize();
       EXPECT_THAT(out.Values<int>() == Message(TheWorld().rank, Next(), 3));
     }},
    {"p2p.header_receive", "ncclRecv", kHeader,
     "ncclRecv: receive data from rank peer into recvbuff",
     [] {
       const Buffer out = Outgoing(Next(), 3), in = Blank(4);
       EXPECT_OK(ncclGroupStart());
       Send(out, Next());
       Receive(in, Previous(), 0, 3);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(in.Values<int>()[3] == static_cast<int>(0xa5a5a5a5));
     }},
    {"p2p.peer_is_a_rank", "ncclSend ncclRecv", "usage/communicators",
     "errors (3): incorrect argument, an out-of-bounds value",
     [] {
       const Buffer buffer = Blank(1);
       for (int peer : {-1, TheWorld().size}) {
         EXPECT_CODE(ncclInvalidArgument, ncclSend(buffer.at(), 1, ncclInt, peer,
                                                   TheWorld().comm, TheWorld().stream));
         EXPECT_CODE(ncclInvalidArgument, ncclRecv(buffer.at(), 1, ncclInt, peer,
                                                   TheWorld().comm, TheWorld().stream));
       }
     }},
    {"p2p.any_pattern", "ncclSend ncclRecv", kUsage,
     "Two-sided: express any communication pattern between ranks",
     [] {
       Ring(17);
       Neighbours();
       OneToAll();
     },
     kEveryRank},
    {"p2p.two_calls", "ncclSend ncclRecv", kUsage,
     "Two-sided: needs a call to ncclSend and a corresponding ncclRecv",
     [] {
       for (size_t count : {1, 2, 3})
         Ungrouped(count);
     },
     kTwoRanks | kEveryRank},
    {"p2p.many_peers", "ncclSend ncclRecv ncclGroupStart ncclGroupEnd", kUsage,
     "Two-sided: calls targeting different peers can be fused together",
     [] { Exchange(false); }, kEveryRank},
    {"p2p.blocking_group", "ncclSend ncclRecv ncclGroupEnd", kUsage,
     "Two-sided: calls within a group are blocking until it completes",
     [] {
       // A second group finds what the first one brought.
       const Buffer out = Outgoing(Next(), 5), middle = Blank(5), back = Blank(5);
       EXPECT_OK(ncclGroupStart());
       Send(out, Next());
       Receive(middle, Previous());
       EXPECT_OK(ncclGroupEnd());
       EXPECT_OK(ncclGroupStart());
       Send(middle, Previous());
       Receive(back, Next());
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(!IsPresent(Next()) ||
                   back.Values<int>() == Message(TheWorld().rank, Next(), 5));
     }},
    {"p2p.independent", "ncclSend ncclRecv ncclGroupEnd", kUsage,
     "Two-sided: calls within a group progress independently",
     [] {
       Exchange(true);
       Exchange(false);
     },
     kEveryRank},
    {"p2p.merge_to_avoid_deadlock", "ncclSend ncclRecv ncclGroupEnd", kUsage,
     "Two-sided: merge calls that progress concurrently, no deadlock", Neighbours},
    {"p2p.same_peer_in_order", "ncclSend ncclRecv ncclGroupEnd", kUsage,
     "Two-sided: calls targeting the same peer are executed in order", SamePeerInOrder},
    {"p2p.variants", "ncclSend ncclRecv", kUsage,
     "Two-sided: different sizes, datatypes, and buffers, per rank", VariedSizes,
     kEveryRank},
    {"p2p.sendrecv", "ncclSend ncclRecv", kUsage,
     "Sendrecv: two ranks exchange data, at the same time", [] { Ring(1024); }},
    {"p2p.one_to_all", "ncclSend ncclRecv", kUsage,
     "One-to-all: merging all send and receive operations in a group", OneToAll,
     kEveryRank},
    {"p2p.all_to_one", "ncclSend ncclRecv", kUsage,
     "All-to-one: similarly, to a root rank", AllToOne, kEveryRank},
    {"p2p.all_to_all", "ncclSend ncclRecv", kUsage,
     "All-to-all: a merged loop of send/recv to/from all peers",
     [] { Exchange(false); }, kEveryRank},
    {"p2p.neighbours", "ncclSend ncclRecv", kUsage,
     "Neighbor exchange: data with neighbors in an N-dimensional space", Neighbours},
    {"p2p.zero", "ncclSend ncclRecv", kUsage,
     "Two-sided: with the same count and data type",
     [] {
       const Buffer buffer = Blank(1);
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclSend(buffer.at(), 0, ncclInt, Next(), TheWorld().comm,
                          TheWorld().stream));
       EXPECT_OK(ncclRecv(buffer.at(), 0, ncclInt, Previous(), TheWorld().comm,
                          TheWorld().stream));
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(buffer.IsUntouched());
       Ring(2);
     }},
    {"p2p.to_oneself", "ncclSend ncclRecv ncclGroupEnd", kUsage,
     "All-to-all: to/from all peers, r from 0", ToOneself},
    {"p2p.alone_to_oneself", "ncclSend ncclGroupEnd", "usage/communicators",
     "errors (4): a dynamic condition which denotes an incorrect usage",
     [] {
       Comm comm = Duplicate();
       const Buffer buffer = Blank(1);
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclSend(buffer.at(), 1, ncclInt, TheWorld().rank, comm.get(),
                          TheWorld().stream));
       EXPECT_CODE(ncclInvalidUsage, ncclGroupEnd());
       EXPECT_OK(ncclCommAbort(comm.Release()));
     }},
};

}  // namespace

std::span<const Case> PointToPointCases() {
  return kCases;
}

}  // namespace conformance
