// One node of the execution graph: what a rank does, without when.
//
// A rank's part of the graph is a *program*: its ops in the order in which the host
// thread issued them. Ops name lanes (streams; lane 0 is the host), tokens (events) and
// communicators by the rank's own numbers. An op holds costs and never a time, so one
// program serves every rank that behaves alike, and a program taken from one run may be
// played in another.
//
// What an op does to its rank's lanes is defined in graph/replay/step.h.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_SCHEMA_OP_H_
#define VRANK_GRAPH_SCHEMA_OP_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/guest/protocol.h"

namespace vrank::graph {

// Shared with the guest contract: the same enumerators mean the same things.
using protocol::CollectiveKind;
using protocol::ElementType;
using protocol::MemoryOwner;
using protocol::Reduction;
using protocol::ReleaseKind;
using protocol::Transfer;

enum class OpKind : uint8_t {
  kHost,  // nothing but host time
  // A kernel, copy, ... of `value` ns on `lane`. b: by how many ns it weighs more than
  // that in the ledger, where its time is assumed (WorkCost::unseen_ns); else 0.
  kWork,
  kRecordToken,    // token a := end of lane
  kWaitToken,      // lane goes on after token a
  kReleaseLane,    // lane's number may be reused
  kHostWaitToken,  // host goes on after token a
  kHostWaitLane,   // host goes on after lane
  kQueryToken,     // has token a ended by now? b: the Answer the program was given
  kQueryLane,      // has lane ended by now? b: likewise
  kPollToken,      // poll token a every `value` ns until it has ended
  kPollLane,       // poll lane every `value` ns until it has ended
  // a: the new communicator; b: index into Details::creations; value: 0, or the token
  // that ends when it exists: then the host does not wait.
  kCreateCommunicator,
  kReleaseCommunicator,  // a: communicator; b: ReleaseKind
  kCollective,           // a: communicator; b: index into Details::collectives
  // a: communicator; b: index into Details::transfer_groups; value: 0, or which groups
  // ranks that follow take part with instead (FollowersGroups).
  kTransfers,
  kMemory,      // value: bytes taken (negative: given back); a: device; b: MemoryOwner
  kRangeBegin,  // a: name
  kRangeEnd,    // a: name
  kAskClock,    // the host clock is told to the program; costs only host_ns
  kHostFunc,    // like kWork; its start is told to the program
};

// Op::b of a query. A query of a real rank is appended with kAnswerUnknown (or with
// what the guest already knew); the engine fills in what it answers, before any other
// rank that reads the same program goes past the query.
inline constexpr uint32_t kAnswerNotYet = 0;
inline constexpr uint32_t kAnswerComplete = 1;
inline constexpr uint32_t kAnswerUnknown = 2;

// Where a cost comes from. The ledger sums costs on the critical path by source.
enum class Source : uint8_t {
  kModelled = 0,
  kAssumed = 1,
  kRecorded = 2,
  kMeasured = 3
};

// What the work is, for breakdowns.
enum class WorkClass : uint8_t { kOther, kKernel, kGemm, kCopy, kMemset, kHostFunc };

struct Op {
  OpKind kind = OpKind::kHost;
  Source source = Source::kModelled;  // of `value`
  WorkClass work = WorkClass::kOther;
  // 1: occupies a place in the launch queue until it has ended.
  uint8_t launch : 1 = 0;
  // 1: comes from a thread that issues no work (a watchdog, a logger). It never moves
  // the host clock and carries no host time; a question is answered where somebody
  // asks, that is on a real rank, and is nothing to the others.
  uint8_t from_helper : 1 = 0;
  Source host_source : 2 = Source::kModelled;  // of `host_ns`
  uint32_t lane = 0;
  int64_t host_ns = 0;  // host time since the previous op
  int64_t value = 0;    // per kind, see OpKind
  uint32_t a = 0;
  uint32_t b = 0;

  friend bool operator==(const Op&, const Op&) = default;
};
static_assert(sizeof(Op) == 32);

struct CollectiveCall {
  CollectiveKind operation = CollectiveKind::kAllReduce;
  ElementType type = ElementType::kInt8;
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;
  uint64_t count = 0;  // NCCL's count argument
  // What it took once everybody was there, where that was recorded; 0: ask the model.
  uint64_t recorded_ns = 0;
  friend auto operator<=>(const CollectiveCall&, const CollectiveCall&) = default;
};

// How a communicator comes into being, as its caller states it.
struct Creation {
  // Split: parent != 0. Init: parent == 0 and unique_id, ranks, rank are set.
  uint32_t parent = 0;
  int32_t color = 0;
  int32_t key = 0;
  uint32_t ranks = 0;
  uint32_t rank = 0;
  uint32_t local_members = 1;  // protocol::CommInit
  std::array<uint8_t, protocol::kUniqueIdBytes> unique_id{};
  std::string name;                // ncclConfig_t::commName
  std::vector<uint32_t> excluded;  // split: members that take no part, ascending
  friend bool operator==(const Creation&, const Creation&) = default;
};

// What ops refer to by index; belongs to a program.
struct Details {
  std::vector<CollectiveCall> collectives;
  std::vector<std::vector<Transfer>> transfer_groups;
  std::vector<Creation> creations;
  std::vector<std::string> names{std::string()};  // index 0: the empty name
};

// A flag of Transfer::peer in a program that several ranks read: the peer is that
// member for all of them. Else it is where the rank that the program was taken from has
// its peer, and others have theirs as far from their own place (RankOptions::leader).
inline constexpr uint32_t kAbsolutePeer = 1u << 31;

// The member that a transfer is with. `shift`: how much further along the rank is than
// the one that the program was taken from.
inline uint32_t PeerIndex(const Transfer& transfer, uint32_t shift, uint32_t size) {
  // A file may name a member that there is not: what is told is one all the same.
  return (transfer.peer & kAbsolutePeer) != 0 ? (transfer.peer & ~kAbsolutePeer) % size
                                              : (transfer.peer + shift) % size;
}

// True for broadcast, reduce, gather and scatter.
bool HasRoot(CollectiveKind kind);
// True for all-reduce, reduce and reduce-scatter.
bool Reduces(CollectiveKind kind);
// Bytes of one element.
uint64_t ElementBytes(ElementType type);
// "all_reduce", "bfloat16", ...: the words used in reports and files.
const char* Name(CollectiveKind kind);
const char* Name(ElementType type);
const char* Name(Reduction reduction);
const char* Name(OpKind kind);
const char* Name(Source source);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCHEMA_OP_H_
