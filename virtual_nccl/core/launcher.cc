// From checked calls to the records kCollective, kPointToPoint and kCopy.

#include "virtual_nccl/core/launcher.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <vector>

#include "base/guest/nccl_trace.h"
#include "virtual_nccl/core/buffers.h"
#include "virtual_nccl/core/held_result.h"
#include "virtual_nccl/core/payload.h"

namespace vrank::nccl {
namespace {

using Stream = VirtualGpu::Stream;

// How an operation reaches the emulator: called by the program, or launched with a CUDA
// graph, whose record it may remember.
struct Way {
  bool writes_record = true;
  uint16_t flags = 0;      // of the record
  bool is_launch = false;  // of a graph

  // A tracer is told of calls. What a graph does it was told when that was captured.
  bool is_call() const { return writes_record && !is_launch; }
};

// One record of work on a stream, and what it does to memory, between the GPU's
// brackets.
template <typename T, typename Effect>
void EmitWork(Library& library, Stream stream, T record,
              std::span<const protocol::Transfer> tail, const HeldResult& result,
              const Way& way, Effect effect) {
  if (!way.writes_record) {
    effect();
    return;
  }
  record.record.flags = way.flags;
  library.gpu().BeginWork(stream);
  if (!library.gpu().HoldStream(stream, record.record, tail.data(), tail.size_bytes(),
                                result)) {
    library.channel().Emit(record, tail.data(), tail.size_bytes());
    library.gpu().DescribeWork(record.record);
  }
  effect();
  library.gpu().EndWork(stream);
}

// In place there is nothing to do, but for a scaled sum, which scales even then.
bool Scales(const Call& call) {
  return ShapeOf(call.operation).reduces &&
         call.reduction == protocol::Reduction::kPreMulSum;
}

void LaunchOneRank(Library& library, const Call& call, Stream stream, const Way& way) {
  if (!KernelGetsThrough(library, call))
    return;
  protocol::Copy copy{};
  copy.record.kind = protocol::RecordKind::kCopy;
  copy.lane = stream.lane;
  copy.copy_kind = protocol::CopyKind::kDeviceToDevice;
  copy.bytes = call.bytes();
  if (!Scales(call)) {
    EmitWork(library, stream, copy, {}, {}, way,
             [&] { library.gpu().CopyContent(call.receive, call.send, call.bytes()); });
    return;
  }
  // What nobody but the emulator knows is multiplied there.
  const protocol::PayloadKey key = NextCollective(call.communicator);
  DepositMultiplied(library, key, call.send, call.bytes(), call.multiplier);
  EmitWork(library, stream, copy, {}, HeldResultOf(call), way, [&] {
    if (call.bytes() > 0)
      library.gpu().SetResult(call.receive, call.bytes(), key, 0);
  });
}

protocol::Collective RecordOf(const Call& call, Stream stream, uint32_t group) {
  protocol::Collective record{};
  record.record.kind = protocol::RecordKind::kCollective;
  record.lane = stream.lane;
  record.communicator = call.communicator->number;
  record.count = call.count;
  record.root = call.root;
  record.group = group;
  record.operation = call.operation;
  record.type = call.type;
  record.reduction = call.reduction;
  record.in_place = call.InPlace();
  return record;
}

// Of sends and receives of one communicator, which go to `transfers`.
protocol::PointToPoint RecordOf(std::span<const Call* const> calls, Stream stream,
                                uint32_t group,
                                std::vector<protocol::Transfer>* transfers) {
  transfers->reserve(calls.size());
  for (const Call* call : calls)
    transfers->push_back({call->bytes(), call->root, call->kind == Request::kSend});
  protocol::PointToPoint record{};
  record.record.kind = protocol::RecordKind::kPointToPoint;
  record.lane = stream.lane;
  record.communicator = calls.front()->communicator->number;
  record.count = static_cast<uint32_t>(transfers->size());
  record.group = group;
  return record;
}

// PyTorch gathers lists of tensors by a broadcast from every member, in one group: what
// a member that is not real would send is then what this one sends, as in an
// all-gather. This member's broadcast, where the collectives are such a group.
const Call* FindOwnPart(std::span<const Call* const> collectives) {
  const Communicator& communicator = *collectives.front()->communicator;
  if (collectives.size() != communicator.ranks)
    return nullptr;
  std::vector<bool> roots(communicator.ranks);
  const Call* own = nullptr;
  for (const Call* call : collectives) {
    if (call->operation != protocol::CollectiveKind::kBroadcast || roots[call->root])
      return nullptr;
    roots[call->root] = true;
    if (call->root == communicator.rank)
      own = call;
  }
  return own;
}

// What the call leaves in its receive buffer: of a broadcast's root, what it sends.
void WriteResult(Library& library, const Call& call, protocol::PayloadKey key,
                 uint64_t offset) {
  const uint64_t bytes = call.ResultBytes();
  if (bytes == 0)
    return;
  if (call.operation != protocol::CollectiveKind::kBroadcast ||
      call.root != call.communicator->rank)
    library.gpu().SetResult(call.receive, bytes, key, offset);
  else if (!call.InPlace())
    library.gpu().CopyContent(call.receive, call.send, bytes);
}

// `own_part`: FindOwnPart of the group, or nullptr.
void LaunchCollective(Library& library, const Call& call, Stream stream, uint32_t group,
                      const Way& way, const Call* own_part = nullptr) {
  if (!KernelGetsThrough(library, call))
    return;
  const protocol::PayloadKey key = NextCollective(call.communicator);
  const bool gathers = own_part != nullptr && own_part->bytes() == call.bytes();
  const Call::Buffer put_in = (gathers ? *own_part : call).Contribution();
  if (call.reduction == protocol::Reduction::kPreMulSum)
    DepositMultiplied(library, key, put_in.address, put_in.bytes, call.multiplier);
  else
    Deposit(library, key, put_in.address, put_in.bytes);
  const protocol::Collective record = RecordOf(call, stream, group);
  NcclTrace* const trace = way.is_call() ? FindNcclTrace() : nullptr;
  if (trace != nullptr)
    trace->BeginCollective(record, /*captured=*/false);
  EmitWork(library, stream, record, {}, HeldResultOf(call), way,
           [&] { WriteResult(library, call, key, 0); });
  if (trace != nullptr)
    trace->EndOperation();
}

// Since 2.29 NCCL runs the broadcasts of one group as one kernel, which is priced as an
// all-gather on a ring of the largest of them (src/scheduler/allgatherv_sched.cc); one
// after the other, those of 1,024 members would take a second. True where they are one
// of equal sizes: then one all-gather is what they do, too.
bool IsAllGather(Library& library, std::span<const Call* const> collectives,
                 const Call* own_part) {
  return own_part != nullptr && !library.gpu().HoldsStreams() &&
         std::all_of(collectives.begin(), collectives.end(), [&](const Call* call) {
           return call->capture == 0 && call->type == own_part->type &&
                  call->count == own_part->count;
         });
}

// REQUIRES: IsAllGather.
void LaunchAllGather(Library& library, std::span<const Call* const> broadcasts,
                     const Call& own_part, Stream stream, uint32_t group) {
  if (!KernelGetsThrough(library, own_part))
    return;
  const protocol::PayloadKey key = NextCollective(own_part.communicator);
  const Call::Buffer put_in = own_part.Contribution();
  Deposit(library, key, put_in.address, put_in.bytes);
  protocol::Collective record = RecordOf(own_part, stream, group);
  record.operation = protocol::CollectiveKind::kAllGather;
  record.root = 0;
  record.in_place = false;
  NcclTrace* const trace = FindNcclTrace();
  if (trace != nullptr)
    trace->BeginCollective(record, /*captured=*/false);
  EmitWork(library, stream, record, {}, {}, Way(), [&] {
    for (const Call* call : broadcasts)
      WriteResult(library, *call, key, call->root * call->ResultBytes());
  });
  if (trace != nullptr)
    trace->EndOperation();
}

// NCCL skips a pair of transfers from a rank to itself that has one buffer: there is
// nothing to move. Pairs are the i-th send and the i-th receive.
class IdlePairs {
 public:
  explicit IdlePairs(std::span<const Call* const> calls) {
    for (const Call* call : calls)
      if (IsSelf(*call))
        (call->kind == Request::kSend ? sends_ : receives_).push_back(call);
  }
  // Whether the call is half of one. REQUIRES: asked about every transfer once, in call
  // order.
  bool TakeNext(const Call& call) {
    if (!IsSelf(call))
      return false;
    const size_t pair = call.kind == Request::kSend ? next_send_++ : next_receive_++;
    return pair < sends_.size() && pair < receives_.size() &&
           sends_[pair]->send == receives_[pair]->receive;
  }

 private:
  static bool IsSelf(const Call& call) {
    return !call.IsCollective() && call.root == call.communicator->rank;
  }

  std::vector<const Call*> sends_, receives_;
  size_t next_send_ = 0, next_receive_ = 0;
};

// REQUIRES: no idle pairs among the calls.
void LaunchTransfers(Library& library, std::span<const Call* const> calls,
                     Stream stream, uint32_t group, const Way& way) {
  struct Received {
    const Call* call;
    protocol::PayloadKey key;
  };
  for (const Call* call : calls)
    if (!KernelGetsThrough(library, *call))
      return;
  std::vector<protocol::Transfer> transfers;
  std::vector<Received> results;
  results.reserve(calls.size());
  for (const Call* call : calls) {
    const bool is_send = call->kind == Request::kSend;
    const auto key = NextTransfer(call->communicator, call->root, is_send);
    if (is_send)
      Deposit(library, key, call->send, call->bytes());
    else
      results.push_back({call, key});
  }
  PromiseOwnPart(library, calls);
  const protocol::PointToPoint record = RecordOf(calls, stream, group, &transfers);
  NcclTrace* const trace = way.is_call() ? FindNcclTrace() : nullptr;
  if (trace != nullptr)
    trace->BeginTransfers(record, transfers.data(), /*captured=*/false);
  EmitWork(library, stream, record, transfers, {}, way, [&] {
    for (const Received& result : results)
      if (result.call->bytes() > 0)
        library.gpu().SetResult(result.call->receive, result.call->bytes(), result.key,
                                0);
  });
  if (trace != nullptr)
    trace->EndOperation();
}

// --- In CUDA graphs -----------------------------------------------------------------

// Operations that a stream's capture takes in: each launch of the graph does what the
// calls would have done. A launch counts as the communicator's next operations, in the
// order in which the program calls and launches (NCCL user guide, "Using NCCL with CUDA
// Graphs").
class CapturedCalls final : public CapturedWork {
 public:
  CapturedCalls(Library& library, std::span<const Call* const> calls, uint32_t group)
      : library_(library),
        captured_(calls.front()->communicator->captured),
        group_(group) {
    for (const Call* call : calls)
      calls_.push_back(*call);
    for (const Call& call : calls_)
      pointers_.push_back(&call);
  }
  void Launch(Stream stream, uint16_t flags) override {
    Do(stream, {true, flags, true});
  }
  void Repeat() override { Do(calls_.front().stream, {false, 0, true}); }

 private:
  void Do(Stream stream, const Way& way) {
    Communicator* communicator = calls_.front().communicator;
    DepositOwnParts(library_);
    std::lock_guard lock(communicator->mutex);
    if (!calls_.front().IsCollective())
      LaunchTransfers(library_, pointers_, stream, group_, way);
    else if (communicator->ranks == 1)
      LaunchOneRank(library_, calls_.front(), stream, way);
    else
      LaunchCollective(library_, calls_.front(), stream, group_, way);
  }

  Library& library_;
  const std::shared_ptr<const char> captured_;
  std::vector<Call> calls_;
  std::vector<const Call*> pointers_;
  const uint32_t group_;
};

// True where the stream is captured: then the calls are in its graph. (A held one is
// captured by CUDA, which the calls need not know.)
bool Capture(Library& library, std::span<const Call* const> calls, Stream stream,
             uint32_t group) {
  if (calls.front()->capture == 0 || library.gpu().HoldsStreams())
    return false;
  NcclTrace* const trace = FindNcclTrace();
  const bool is_copy =
      calls.front()->IsCollective() && calls.front()->communicator->ranks == 1;
  const bool told = trace != nullptr && !is_copy;
  if (told && calls.front()->IsCollective()) {
    trace->BeginCollective(RecordOf(*calls.front(), stream, group), /*captured=*/true);
  } else if (told) {
    std::vector<protocol::Transfer> transfers;
    const auto record = RecordOf(calls, stream, group, &transfers);
    trace->BeginTransfers(record, transfers.data(), /*captured=*/true);
  }
  library.gpu().Capture(stream, std::make_shared<CapturedCalls>(library, calls, group));
  if (told)
    trace->EndOperation();
  return true;
}

// --- Calls ---------------------------------------------------------------------------

// The streams of the calls but for the first one's, each once, in call order.
std::vector<Stream> OtherStreams(std::span<const Call* const> calls) {
  std::vector<Stream> others;
  std::unordered_set<uint32_t> seen;
  for (const Call* call : calls) {
    const uint32_t lane = call->stream.lane;
    if (lane != calls.front()->stream.lane && seen.insert(lane).second)
      others.push_back(call->stream);
  }
  return others;
}

// REQUIRES: the communicator's lock held.
void LaunchFused(Library& library, Communicator* communicator,
                 std::span<const Call* const> collectives,
                 std::span<const Call* const> transfers,
                 std::span<const Call* const> all) {
  const Stream stream = all.front()->stream;
  const std::vector<Stream> others = OtherStreams(all);
  for (Stream other : others)
    library.gpu().Join(stream, other);
  const size_t records = collectives.size() + (transfers.empty() ? 0 : 1);
  const uint32_t group = records > 1 ? ++communicator->groups : 0;
  const Call* const own_part = collectives.empty() ? nullptr : FindOwnPart(collectives);
  if (IsAllGather(library, collectives, own_part)) {
    LaunchAllGather(library, collectives, *own_part, stream, group);
  } else {
    for (const Call* const& call : collectives)
      if (!Capture(library, {&call, 1}, stream, group))
        LaunchCollective(library, *call, stream, group, {}, own_part);
  }
  if (!transfers.empty() && !Capture(library, transfers, stream, group))
    LaunchTransfers(library, transfers, stream, group, {});
  for (Stream other : others)
    library.gpu().Join(other, stream);
}

}  // namespace

void Launch(Library& library, std::span<const Call* const> calls) {
  Communicator* communicator = calls.front()->communicator;
  // The GPU's lock first: a graph's launch holds it when it gets to the communicator.
  const GpuHold hold(library.gpu());
  DepositOwnParts(library);
  std::lock_guard lock(communicator->mutex);
  if (calls.size() == 1 && calls.front()->IsCollective() && communicator->ranks > 1) {
    if (!Capture(library, calls, calls.front()->stream, 0))
      LaunchCollective(library, *calls.front(), calls.front()->stream, 0, {});
    return;
  }
  IdlePairs idle_pairs(calls);
  std::vector<const Call*> collectives, transfers, fused;
  for (const Call* const& call : calls) {
    if (!call->IsCollective()) {
      if (!idle_pairs.TakeNext(*call))
        transfers.push_back(call);
    } else if (communicator->ranks == 1) {
      const bool idle = call->send == call->receive && !Scales(*call);
      if (!idle && !Capture(library, {&call, 1}, call->stream, 0))
        LaunchOneRank(library, *call, call->stream, {});
      continue;
    } else {
      collectives.push_back(call);
    }
    fused.push_back(call);
  }
  if (!fused.empty())
    LaunchFused(library, communicator, collectives, transfers, fused);
}

}  // namespace vrank::nccl
