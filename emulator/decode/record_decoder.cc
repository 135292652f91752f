#include "emulator/decode/record_decoder.h"

#include <fmt/format.h>

#include "base/guest/channel.h"
#include "base/status_macros.h"
#include "emulator/decode/record_reading.h"

namespace vrank::emulator {

using graph::Op;
using graph::OpKind;
using protocol::Record;
using protocol::RecordKind;

RecordDecoder::RecordDecoder(int32_t rank, graph::Program* program, WorkPricer* pricer,
                             DecoderSink* sink, graph::Source host_time)
    : rank_(rank),
      host_time_(host_time),
      program_(program),
      pricer_(pricer),
      sink_(sink),
      copy_name_(program->AddName("memcpy")),
      memset_name_(program->AddName("memset")) {
  if (pricer->gpu() != nullptr)
    governor_.emplace(*pricer->gpu());
}

absl::Status RecordDecoder::Decode(const Record& record) {
  absl::Status status;
  if (record.size < sizeof(Record) || record.size % 8 != 0)
    status = Malformed(fmt::format("size {} is no record's", record.size));
  else if (record.host_ns < 0 || record.host_ns > kMaxNs)
    status = Malformed(fmt::format("host time {} ns is out of range", record.host_ns));
  else {
    AddHostTime(record);
    in_graph_ = (record.flags & protocol::kInGraph) != 0;
    status = DecodeKind(record);
    in_graph_ = false;
  }
  if (absl::IsFailedPrecondition(status)) {  // the program's fault, not the record's
    absl::Status of_rank = absl::FailedPreconditionError(
        fmt::format("rank {}: {}", rank_, std::string(status.message())));
    // The ranks whose calls would tell (graph/membership/deciding_rank.h).
    status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
      of_rank.SetPayload(url, payload);
    });
    return of_rank;
  }
  if (!status.ok())
    return absl::Status(
        status.code(), fmt::format("rank {}: record {} at byte {} (kind {}): {}", rank_,
                                   records_, bytes_, static_cast<int>(record.kind),
                                   std::string(status.message())));
  ++records_;
  bytes_ += record.size;
  if (observer_ != nullptr) [[unlikely]]
    observer_->OnRecord(record, {.ops = program_->size(),
                                 .pending_host_ns = pending_host_ns_,
                                 .host_source = pending_source_,
                                 .work_source = latest_source_});
  return absl::OkStatus();
}

void RecordDecoder::Finish() {
  if (pending_host_ns_ > 0)
    Append(Op{.kind = OpKind::kHost});
  for (const auto& [number, open] : std::exchange(host_functions_open_, {}))
    sink_->OnHostFuncEnd(rank_, open.first, open.second);
}

absl::Status RecordDecoder::DecodeKind(const Record& record) {
  switch (record.kind) {
    case RecordKind::kPad:
      return absl::OkStatus();
    case RecordKind::kDefineName:
      return DefineName(record);
    case RecordKind::kHost:
    case RecordKind::kAskClock:
    case RecordKind::kRangeBegin:
    case RecordKind::kRangeEnd:
    case RecordKind::kLoss:
    case RecordKind::kMemory:
    case RecordKind::kAskMemory:
    case RecordKind::kReleaseLane:
    case RecordKind::kRecordToken:
    case RecordKind::kWaitToken:
    case RecordKind::kHostWaitToken:
    case RecordKind::kHostWaitLane:
    case RecordKind::kHostQuery:
    case RecordKind::kHostGaps:
    case RecordKind::kAllocatorPeak:
    case RecordKind::kAllocatorBlocks:
      return DecodeHost(record);
    case RecordKind::kKernel:
    case RecordKind::kGemm:
    case RecordKind::kCopy:
    case RecordKind::kMemset:
    case RecordKind::kHostFunc:
    case RecordKind::kHostFuncEnd:
      return DecodeWork(record);
    case RecordKind::kCommInit:
    case RecordKind::kCommSplit:
    case RecordKind::kCommRelease:
    case RecordKind::kCollective:
    case RecordKind::kPointToPoint:
    case RecordKind::kPayload:
    case RecordKind::kFetchPayload:
    case RecordKind::kEstimate:
      return DecodeNccl(record);
    case RecordKind::kActivity:
      return Activity(record);
    case RecordKind::kGraphLaunch:
    case RecordKind::kGraphEnd:
    case RecordKind::kGraphForget:
      return DecodeGraph(record);
    case RecordKind::kCount:
      break;
  }
  return Malformed("this kind is unknown");
}

// ---------------------------------------------------------------------------------
// Helpers
// ---------------------------------------------------------------------------------

absl::StatusOr<uint32_t> RecordDecoder::Name(uint32_t guest_name) const {
  if (guest_name == 0)
    return 0u;
  const auto name = names_.find(guest_name);
  if (name == names_.end())
    return Malformed(fmt::format("name {} was never defined", guest_name));
  return name->second;
}

void RecordDecoder::AddHostTime(const Record& record) {
  if (record.host_ns == 0)
    return;
  const graph::Source source = HostSourceOf(record, host_time_);
  if (source != pending_source_ && pending_host_ns_ != 0)
    Append(Op{.kind = OpKind::kHost});
  pending_source_ = source;
  pending_host_ns_ += record.host_ns;
  KernelTotal& total = host_[static_cast<size_t>(ActivityOf(record))];
  ++total.count;
  total.time_ns += record.host_ns;
}

uint64_t RecordDecoder::Append(Op op) {
  if (in_graph_) {
    op.launch = 0;
    if (learning_ != nullptr)
      learning_->ops.push_back(op);
  }
  if (op.from_helper == 0) {
    op.host_source = pending_source_;
    op.host_ns = pending_host_ns_;
    pending_host_ns_ = 0;
  }
  latest_source_ = op.source;
  program_->Append(op);
  return program_->size() - 1;
}

void RecordDecoder::AppendQuestion(const Record& record, Op op, uint32_t slot) {
  op.from_helper = IsFromHelper(record) ? 1 : 0;
  if (op.from_helper != 0 && slot == protocol::kNoSlot)
    return;
  Ask(Append(op), slot);
}

void RecordDecoder::Ask(uint64_t op, uint32_t slot) {
  if (slot != protocol::kNoSlot)
    sink_->OnQuestion(rank_, op, Question{.slot = slot});
}

WorkTotals RecordDecoder::Totals() const {
  WorkTotals result;
  result.flops = flops_;
  result.bytes = moved_bytes_;
  for (size_t i = 0; i < kHostActivities; ++i)
    if (host_[i].count != 0)
      result.host[emulator::Name(static_cast<HostActivity>(i))] = host_[i];
  const std::vector<std::string>& names = program_->details().names;
  for (size_t name = 0; name < kernels_.size(); ++name) {
    for (size_t source = 0; source < 4; ++source) {
      const KernelTotal& total = kernels_[name].totals[source];
      if (total.count == 0)
        continue;
      KernelTotal& row =
          result.kernels[{names[name], static_cast<graph::Source>(source)}];
      row.count += total.count;
      row.time_ns += total.time_ns;
      row.unseen_ns += total.unseen_ns;
    }
  }
  return result;
}

// ---------------------------------------------------------------------------------
// Names, host, lanes and tokens
// ---------------------------------------------------------------------------------

absl::Status RecordDecoder::DefineName(const Record& record) {
  ASSIGN_OR_RETURN(const auto* define, RecordAs<protocol::DefineName>(record));
  ASSIGN_OR_RETURN(define, RecordAs<protocol::DefineName>(record, define->length));
  if (define->name == 0)
    return Malformed("name 0 stands for no name");
  const char* text = reinterpret_cast<const char*>(define + 1);
  names_[define->name] = program_->AddName(std::string(text, define->length));
  return absl::OkStatus();
}

absl::Status RecordDecoder::DecodeHost(const Record& record) {
  switch (record.kind) {
    case RecordKind::kHost:
      ++host_records_;
      Append(Op{.kind = OpKind::kHost});
      return absl::OkStatus();
    case RecordKind::kAskClock: {
      ASSIGN_OR_RETURN(const auto* ask, RecordAs<protocol::AskClock>(record));
      RETURN_IF_ERROR(CheckSlot(ask->slot, true));
      AppendQuestion(record, Op{.kind = OpKind::kAskClock}, ask->slot);
      return absl::OkStatus();
    }
    case RecordKind::kRangeBegin:
    case RecordKind::kRangeEnd: {
      ASSIGN_OR_RETURN(const auto* range, RecordAs<protocol::Range>(record));
      ASSIGN_OR_RETURN(const uint32_t name, Name(range->name));
      Append(Op{.kind = record.kind == RecordKind::kRangeBegin ? OpKind::kRangeBegin
                                                               : OpKind::kRangeEnd,
                .a = name});
      return absl::OkStatus();
    }
    case RecordKind::kLoss:
      return Loss(record);
    case RecordKind::kHostGaps:
      return HostGaps(record);
    case RecordKind::kAllocatorPeak: {
      ASSIGN_OR_RETURN(const auto* peak, RecordAs<protocol::AllocatorPeak>(record));
      ++host_records_;
      sink_->OnAllocatorPeak(rank_, program_->size(), *peak);
      return absl::OkStatus();
    }
    case RecordKind::kAllocatorBlocks:
      return AllocatorBlocks(record);
    case RecordKind::kMemory:
      return Memory(record);
    case RecordKind::kAskMemory:
      return AskMemory(record);
    case RecordKind::kReleaseLane: {
      ASSIGN_OR_RETURN(const auto* release, RecordAs<protocol::Lane>(record));
      RETURN_IF_ERROR(CheckWorkLane(release->lane));
      Append(Op{.kind = OpKind::kReleaseLane, .lane = release->lane});
      return absl::OkStatus();
    }
    case RecordKind::kRecordToken:
    case RecordKind::kWaitToken:
      return Token(record);
    case RecordKind::kHostQuery:
      return HostQuery(record);
    default:
      return HostWait(record);
  }
}

absl::Status RecordDecoder::Loss(const Record& record) {
  ASSIGN_OR_RETURN(const auto* loss, RecordAs<protocol::Loss>(record));
  ASSIGN_OR_RETURN(const uint32_t name, Name(loss->name));
  short_of_memory_ |= loss->loss == static_cast<uint32_t>(LossId::kNoMemoryLeft);
  sink_->OnLoss(rank_, program_->size(), loss->loss, program_->details().names[name],
                loss->amount);
  return absl::OkStatus();
}

absl::Status RecordDecoder::HostGaps(const Record& record) {
  ASSIGN_OR_RETURN(const auto* batch, RecordAs<protocol::HostGaps>(record));
  ASSIGN_OR_RETURN(batch,
                   RecordAs<protocol::HostGaps>(
                       record, uint64_t{batch->count} * sizeof(protocol::HostGap)));
  ++host_records_;
  sink_->OnHostGaps(
      rank_, *batch,
      {reinterpret_cast<const protocol::HostGap*>(batch + 1), batch->count});
  return absl::OkStatus();
}

absl::Status RecordDecoder::AllocatorBlocks(const Record& record) {
  ASSIGN_OR_RETURN(const auto* head, RecordAs<protocol::AllocatorBlocks>(record));
  ASSIGN_OR_RETURN(
      head, RecordAs<protocol::AllocatorBlocks>(
                record, uint64_t{head->count} * sizeof(protocol::AllocatorBlock)));
  ++host_records_;
  const std::span blocks(reinterpret_cast<const protocol::AllocatorBlock*>(head + 1),
                         head->count);
  for (const protocol::AllocatorBlock& block : blocks)
    if (!AtMost(block.change, protocol::BlockChange::kGivenBack))
      return Malformed(
          fmt::format("change {} of a block", static_cast<uint32_t>(block.change)));
  sink_->OnAllocatorBlocks(rank_, program_->size(), blocks, head->incomplete == 0);
  return absl::OkStatus();
}

absl::Status RecordDecoder::Activity(const Record& record) {
  ASSIGN_OR_RETURN(const auto* activity, RecordAs<protocol::Activity>(record));
  if (!AtMost(activity->wish, protocol::ActivityWish::kDrain))
    return Malformed(fmt::format("wish {}", static_cast<uint32_t>(activity->wish)));
  RETURN_IF_ERROR(CheckSlot(activity->slot, false));
  sink_->OnActivity(rank_, activity->wish, activity->slot);
  return absl::OkStatus();
}

absl::Status RecordDecoder::Memory(const Record& record) {
  ASSIGN_OR_RETURN(const auto* memory, RecordAs<protocol::Memory>(record));
  if (!AtMost(memory->owner, protocol::MemoryOwner::kCommunicator))
    return Malformed(
        fmt::format("memory of owner {}", static_cast<uint32_t>(memory->owner)));
  if (memory->device >= kMaxDevices)
    return Malformed(fmt::format("device {}", memory->device));
  short_of_memory_ &= memory->delta_bytes <= 0;
  Append(Op{.kind = OpKind::kMemory,
            .value = memory->delta_bytes,
            .a = memory->device,
            .b = static_cast<uint32_t>(memory->owner)});
  return absl::OkStatus();
}

absl::Status RecordDecoder::AskMemory(const Record& record) {
  ASSIGN_OR_RETURN(const auto* ask, RecordAs<protocol::AskMemory>(record));
  RETURN_IF_ERROR(CheckSlot(ask->slot, true));
  if (ask->device >= kMaxDevices)
    return Malformed(fmt::format("device {}", ask->device));
  Op op{.kind = OpKind::kAskClock};
  op.from_helper = IsFromHelper(record) ? 1 : 0;
  sink_->OnQuestion(rank_, Append(op),
                    Question{.slot = ask->slot,
                             .is_memory = true,
                             .device = ask->device,
                             .begins_sharing = ask->begins_sharing != 0,
                             .bytes = ask->bytes});
  return absl::OkStatus();
}

absl::Status RecordDecoder::Token(const Record& record) {
  ASSIGN_OR_RETURN(const auto* token, RecordAs<protocol::TokenOnLane>(record));
  RETURN_IF_ERROR(CheckWorkLane(token->lane));
  if (token->token >= kMaxTokens)
    return Malformed(fmt::format("token {}", token->token));
  Append(Op{.kind = record.kind == RecordKind::kRecordToken ? OpKind::kRecordToken
                                                            : OpKind::kWaitToken,
            .lane = token->lane,
            .a = token->token});
  return absl::OkStatus();
}

absl::Status RecordDecoder::HostWait(const Record& record) {
  ASSIGN_OR_RETURN(const auto* wait, RecordAs<protocol::HostWait>(record));
  RETURN_IF_ERROR(CheckSlot(wait->slot, false));
  Op op;
  if (record.kind == RecordKind::kHostWaitLane) {
    RETURN_IF_ERROR(CheckWorkLane(wait->target));
    op = Op{.kind = OpKind::kHostWaitLane, .lane = wait->target};
  } else {
    if (wait->target >= kMaxTokens)
      return Malformed(fmt::format("token {}", wait->target));
    op = Op{.kind = OpKind::kHostWaitToken, .a = wait->target};
  }
  if ((record.flags & protocol::kMoreWaits) != 0)
    op.b = graph::kMoreWaits;
  AppendQuestion(record, op, wait->slot);
  return absl::OkStatus();
}

absl::Status RecordDecoder::HostQuery(const Record& record) {
  ASSIGN_OR_RETURN(const auto* query, RecordAs<protocol::HostQuery>(record));
  RETURN_IF_ERROR(CheckSlot(query->slot, false));
  ++queries_;
  Op op;
  if (query->target_kind == protocol::QueryTarget::kLane) {
    RETURN_IF_ERROR(CheckWorkLane(query->target));
    op = Op{.kind = OpKind::kQueryLane, .lane = query->target};
  } else {
    if (query->target >= kMaxTokens)
      return Malformed(fmt::format("token {}", query->target));
    op = Op{.kind = OpKind::kQueryToken, .a = query->target};
  }
  if (query->slot != protocol::kNoSlot)
    op.b = graph::kAnswerUnknown;
  else
    op.b = query->known_complete != 0 ? graph::kAnswerComplete : graph::kAnswerNotYet;
  if ((record.flags & protocol::kAsksAgain) != 0)
    op.value = graph::kAsksAgain;
  AppendQuestion(record, op, query->slot);
  return absl::OkStatus();
}

}  // namespace vrank::emulator
