// The part of RecordDecoder that deals with communicators and their payloads.

#include <algorithm>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/decode/record_decoder.h"
#include "emulator/decode/record_reading.h"

namespace vrank::emulator {

using graph::Op;
using graph::OpKind;
using protocol::Record;
using protocol::RecordKind;

absl::Status RecordDecoder::DecodeNccl(const Record& record) {
  switch (record.kind) {
    case RecordKind::kCommInit:
      return CommInit(record);
    case RecordKind::kCommSplit:
      return CommSplit(record);
    case RecordKind::kCommRelease:
      return CommRelease(record);
    case RecordKind::kCollective:
      return Collective(record);
    case RecordKind::kPointToPoint:
      return PointToPoint(record);
    case RecordKind::kPayload:
      return Payload(record);
    case RecordKind::kEstimate:
      return Estimate(record);
    default:
      return FetchPayload(record);
  }
}

absl::Status RecordDecoder::CommInit(const Record& record) {
  ASSIGN_OR_RETURN(const auto* init, RecordAs<protocol::CommInit>(record));
  RETURN_IF_ERROR(CheckSlot(init->slot, true));
  ASSIGN_OR_RETURN(const uint32_t name, Name(init->name));
  RETURN_IF_ERROR(CheckCommunicator(init->communicator));
  if (init->rank >= init->ranks || init->ranks > kMaxMembers ||
      init->local_members == 0 || init->local_members > init->ranks)
    return Malformed(fmt::format("communicator {}: rank {} of {}, {} in this process",
                                 init->communicator, init->rank, init->ranks,
                                 init->local_members));
  if (init->token >= kMaxTokens)
    return Malformed(fmt::format("token {}", init->token));
  graph::Creation creation;
  creation.ranks = init->ranks;
  creation.rank = init->rank;
  creation.local_members = init->local_members;
  std::copy(std::begin(init->unique_id), std::end(init->unique_id),
            creation.unique_id.begin());
  creation.name = program_->details().names[name];
  const uint64_t op = Append(Op{.kind = OpKind::kCreateCommunicator,
                                .value = init->token,
                                .a = init->communicator,
                                .b = program_->AddCreation(creation)});
  sink_->OnInit(rank_, op, *init);
  Ask(op, init->slot);
  return absl::OkStatus();
}

absl::Status RecordDecoder::CommSplit(const Record& record) {
  ASSIGN_OR_RETURN(const auto* split, RecordAs<protocol::CommSplit>(record));
  ASSIGN_OR_RETURN(split, RecordAs<protocol::CommSplit>(
                              record, split->excluded * uint64_t{sizeof(uint32_t)}));
  RETURN_IF_ERROR(CheckSlot(split->slot, true));
  ASSIGN_OR_RETURN(const uint32_t name, Name(split->name));
  RETURN_IF_ERROR(CheckCommunicator(split->parent));
  RETURN_IF_ERROR(CheckCommunicator(split->communicator));
  if (split->token >= kMaxTokens)
    return Malformed(fmt::format("token {}", split->token));
  graph::Creation creation;
  const auto* excluded = reinterpret_cast<const uint32_t*>(split + 1);
  creation.excluded.assign(excluded, excluded + split->excluded);
  if (std::adjacent_find(creation.excluded.begin(), creation.excluded.end(),
                         std::greater_equal<>()) != creation.excluded.end())
    return Malformed("excluded members are not in ascending order");
  creation.parent = split->parent;
  creation.color = split->color;
  creation.key = split->key;
  creation.name = program_->details().names[name];
  Ask(Append(Op{.kind = OpKind::kCreateCommunicator,
                .value = split->token,
                .a = split->communicator,
                .b = program_->AddCreation(creation)}),
      split->slot);
  return absl::OkStatus();
}

absl::Status RecordDecoder::CommRelease(const Record& record) {
  ASSIGN_OR_RETURN(const auto* release, RecordAs<protocol::CommRelease>(record));
  RETURN_IF_ERROR(CheckSlot(release->slot, false));
  RETURN_IF_ERROR(CheckCommunicator(release->communicator));
  if (!AtMost(release->release, protocol::ReleaseKind::kStop))
    return Malformed(
        fmt::format("release kind {}", static_cast<uint32_t>(release->release)));
  if (release->captured != 0 && release->release != protocol::ReleaseKind::kStop)
    return absl::FailedPreconditionError(fmt::format(
        "the release of a communicator (ncclCommDestroy, ncclCommAbort) never returns, "
        "since {} of its operations are in CUDA graphs that still exist; destroy the "
        "graphs first (in PyTorch, `del graph` before destroy_process_group)",
        release->captured));
  Op op{.kind = OpKind::kReleaseCommunicator,
        .a = release->communicator,
        .b = static_cast<uint32_t>(release->release)};
  op.from_helper = IsFromHelper(record) ? 1 : 0;
  Ask(Append(op), release->slot);
  if (release->release != protocol::ReleaseKind::kFinalize &&
      release->release != protocol::ReleaseKind::kStop)
    sink_->OnRelease(rank_, release->communicator);
  return absl::OkStatus();
}

absl::Status RecordDecoder::Collective(const Record& record) {
  ASSIGN_OR_RETURN(const auto* collective, RecordAs<protocol::Collective>(record));
  RETURN_IF_ERROR(CheckWorkLane(collective->lane));
  if (!AtMost(collective->operation, protocol::CollectiveKind::kScatter) ||
      !AtMost(collective->type, protocol::ElementType::kFloat8E5M2) ||
      !AtMost(collective->reduction, protocol::Reduction::kPreMulSum))
    return Malformed(fmt::format("collective {} on type {} with reduction {}",
                                 static_cast<int>(collective->operation),
                                 static_cast<int>(collective->type),
                                 static_cast<int>(collective->reduction)));
  const graph::CollectiveCall call{collective->operation, collective->type,
                                   collective->reduction, collective->root,
                                   collective->count};
  RETURN_IF_ERROR(sink_->OnCollective(rank_, collective->communicator, call));
  Append(Op{.kind = OpKind::kCollective,
            .launch = 1,
            .lane = collective->lane,
            .a = collective->communicator,
            .b = program_->AddCollective(call)});
  return absl::OkStatus();
}

absl::Status RecordDecoder::PointToPoint(const Record& record) {
  ASSIGN_OR_RETURN(const auto* group, RecordAs<protocol::PointToPoint>(record));
  ASSIGN_OR_RETURN(group,
                   RecordAs<protocol::PointToPoint>(
                       record, group->count * uint64_t{sizeof(graph::Transfer)}));
  RETURN_IF_ERROR(CheckWorkLane(group->lane));
  const auto* transfers = reinterpret_cast<const graph::Transfer*>(group + 1);
  ASSIGN_OR_RETURN(const graph::RootedTransfers rooted,
                   sink_->OnTransfers(rank_, group->communicator,
                                      std::span(transfers, group->count)));
  Append(Op{.kind = OpKind::kTransfers,
            .launch = 1,
            .lane = group->lane,
            .value = graph::AddFollowersGroups(rooted, program_),
            .a = group->communicator,
            .b = program_->AddTransfers(
                std::vector<graph::Transfer>(transfers, transfers + group->count))});
  return absl::OkStatus();
}

absl::Status RecordDecoder::Estimate(const Record& record) {
  ASSIGN_OR_RETURN(const auto* estimate, RecordAs<protocol::Estimate>(record));
  RETURN_IF_ERROR(CheckSlot(estimate->slot, true));
  if (!AtMost(estimate->operation, protocol::CollectiveKind::kScatter) ||
      !AtMost(estimate->type, protocol::ElementType::kFloat8E5M2) ||
      !AtMost(estimate->reduction, protocol::Reduction::kPreMulSum) ||
      estimate->transfer > 2)
    return Malformed(fmt::format("estimate of collective {} on type {}",
                                 static_cast<int>(estimate->operation),
                                 static_cast<int>(estimate->type)));
  ASSIGN_OR_RETURN(const Duration duration, sink_->OnEstimate(rank_, *estimate));
  Op op{.kind = OpKind::kAskClock};
  op.from_helper = IsFromHelper(record) ? 1 : 0;
  sink_->OnQuestion(rank_, Append(op),
                    Question{.slot = estimate->slot,
                             .value = static_cast<uint64_t>(duration.nanoseconds())});
  return absl::OkStatus();
}

absl::Status RecordDecoder::Payload(const Record& record) {
  ASSIGN_OR_RETURN(const auto* payload, RecordAs<protocol::Payload>(record));
  if (!AtMost(payload->state, protocol::PayloadState::kDerived))
    return Malformed(
        fmt::format("payload state {}", static_cast<uint32_t>(payload->state)));
  if (!AtMost(payload->factor.state, protocol::FactorState::kDerived) ||
      !AtMost(payload->factor.type, protocol::ElementType::kFloat8E5M2))
    return Malformed(fmt::format("payload factor {} of type {}",
                                 static_cast<uint32_t>(payload->factor.state),
                                 static_cast<uint32_t>(payload->factor.type)));
  const bool known = payload->state == protocol::PayloadState::kKnown;
  if (known && payload->bytes > record.size - sizeof(protocol::Payload))
    return Malformed(fmt::format("payload of {} bytes in a record of {}",
                                 payload->bytes, record.size));
  const auto* bytes = reinterpret_cast<const std::byte*>(payload + 1);
  return sink_->OnPayload(rank_, *payload,
                          std::span(bytes, known ? payload->bytes : 0));
}

absl::Status RecordDecoder::FetchPayload(const Record& record) {
  ASSIGN_OR_RETURN(const auto* fetch, RecordAs<protocol::FetchPayload>(record));
  RETURN_IF_ERROR(CheckSlot(fetch->slot, true));
  if (fetch->bytes > protocol::kBounceBytes ||
      fetch->offset > std::numeric_limits<uint64_t>::max() - fetch->bytes)
    return Malformed(
        fmt::format("fetch of {} bytes at {}", fetch->bytes, fetch->offset));
  Op op{.kind = OpKind::kAskClock};
  op.from_helper = IsFromHelper(record) ? 1 : 0;
  sink_->OnQuestion(rank_, Append(op),
                    Question{.slot = fetch->slot,
                             .is_fetch = true,
                             .key = fetch->key,
                             .offset = fetch->offset,
                             .bytes = fetch->bytes,
                             .if_ready = fetch->if_ready != 0});
  return absl::OkStatus();
}

}  // namespace vrank::emulator
