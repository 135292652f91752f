// From checked calls to the records kCollective, kPointToPoint and kCopy.

#include "virtual_nccl/core/launcher.h"

#include <algorithm>
#include <vector>

#include "base/guest/nccl_trace.h"
#include "virtual_nccl/core/payload.h"

namespace vrank::nccl {
namespace {

using Stream = VirtualGpu::Stream;

// One record of work on a stream, and what it does to memory, between the GPU's
// brackets.
template <typename T, typename Effect>
void EmitWork(Library& library, Stream stream, const T& record,
              std::span<const protocol::Transfer> tail, Effect effect) {
  library.gpu().BeginWork(stream);
  library.channel().Emit(record, tail.data(), tail.size_bytes());
  library.gpu().DescribeWork(record.record);
  effect();
  library.gpu().EndWork(stream);
}

void LaunchOneRank(Library& library, const Call& call) {
  // In place there is nothing to do, but for a scaled sum, which scales even then.
  const bool scales = ShapeOf(call.operation).reduces &&
                      call.reduction == protocol::Reduction::kPreMulSum;
  if (call.send == call.receive && !scales)
    return;
  protocol::Copy copy{};
  copy.record.kind = protocol::RecordKind::kCopy;
  copy.lane = call.stream.lane;
  copy.copy_kind = protocol::CopyKind::kDeviceToDevice;
  copy.bytes = call.bytes();
  EmitWork(library, call.stream, copy, {}, [&] {
    if (scales)
      library.gpu().SetComputed(call.receive, call.bytes());
    else
      library.gpu().CopyContent(call.receive, call.send, call.bytes());
  });
}

void LaunchCollective(Library& library, const Call& call, Stream stream,
                      uint32_t group) {
  const protocol::PayloadKey key = NextCollective(call.communicator);
  if (call.reduction == protocol::Reduction::kPreMulSum)
    DepositComputed(library, key, call.ContributionBytes());
  else
    Deposit(library, key, call.send, call.ContributionBytes());
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
  NcclTrace* const trace = FindNcclTrace();
  if (trace != nullptr)
    trace->BeginCollective(record);
  EmitWork(library, stream, record, {}, [&] {
    if (const uint64_t bytes = call.ResultBytes(); bytes > 0)
      library.gpu().SetResult(call.receive, bytes, key, 0);
  });
  if (trace != nullptr)
    trace->EndOperation();
}

// NCCL skips a pair of transfers from a rank to itself that has one buffer: there is
// nothing to move. Pairs are the i-th send and the i-th receive.
bool IsIdlePair(const Call& call, std::span<const Call* const> transfers) {
  if (call.root != call.communicator->rank)
    return false;
  auto is_self = [&](const Call* other, Request::Kind kind) {
    return other->root == call.root && other->kind == kind;
  };
  size_t place = 0;  // among the self transfers of its kind
  for (const Call* const* at = transfers.data(); *at != &call; ++at)
    place += is_self(*at, call.kind);
  const bool is_send = call.kind == Request::kSend;
  for (const Call* other : transfers)
    if (is_self(other, is_send ? Request::kReceive : Request::kSend) && place-- == 0)
      return is_send ? call.send == other->receive : call.receive == other->send;
  return false;
}

void LaunchTransfers(Library& library, std::span<const Call* const> calls,
                     Stream stream, uint32_t group) {
  struct Received {
    const Call* call;
    protocol::PayloadKey key;
  };
  std::vector<protocol::Transfer> transfers;
  std::vector<Received> results;
  transfers.reserve(calls.size());
  results.reserve(calls.size());
  for (const Call* call : calls) {
    if (IsIdlePair(*call, calls))
      continue;
    const bool is_send = call->kind == Request::kSend;
    const auto key = NextTransfer(call->communicator, call->root, is_send);
    if (is_send)
      Deposit(library, key, call->send, call->bytes());
    else
      results.push_back({call, key});
    transfers.push_back({call->bytes(), call->root, is_send});
  }
  if (transfers.empty())
    return;
  protocol::PointToPoint record{};
  record.record.kind = protocol::RecordKind::kPointToPoint;
  record.lane = stream.lane;
  record.communicator = calls.front()->communicator->number;
  record.count = static_cast<uint32_t>(transfers.size());
  record.group = group;
  NcclTrace* const trace = FindNcclTrace();
  if (trace != nullptr)
    trace->BeginTransfers(record, transfers.data());
  EmitWork(library, stream, record, transfers, [&] {
    for (const Received& result : results)
      if (result.call->bytes() > 0)
        library.gpu().SetResult(result.call->receive, result.call->bytes(), result.key,
                                0);
  });
  if (trace != nullptr)
    trace->EndOperation();
}

// The streams of the calls but for the first one's, each once, in call order.
std::vector<Stream> OtherStreams(std::span<const Call* const> calls) {
  std::vector<Stream> others;
  for (const Call* call : calls) {
    auto same = [&](Stream stream) { return stream.lane == call->stream.lane; };
    if (!same(calls.front()->stream) &&
        std::none_of(others.begin(), others.end(), same))
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
  for (const Call* call : collectives)
    LaunchCollective(library, *call, stream, group);
  if (!transfers.empty())
    LaunchTransfers(library, transfers, stream, group);
  for (Stream other : others)
    library.gpu().Join(other, stream);
}

}  // namespace

void Launch(Library& library, std::span<const Call* const> calls) {
  Communicator* communicator = calls.front()->communicator;
  std::lock_guard lock(communicator->mutex);
  if (calls.size() == 1 && calls.front()->IsCollective() && communicator->ranks > 1)
    return LaunchCollective(library, *calls.front(), calls.front()->stream, 0);
  std::vector<const Call*> collectives, transfers, fused;
  for (const Call* call : calls) {
    if (!call->IsCollective()) {
      transfers.push_back(call);
    } else if (communicator->ranks == 1) {
      LaunchOneRank(library, *call);
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
