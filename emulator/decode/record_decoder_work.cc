// The part of RecordDecoder that prices work on lanes.

#include <fmt/format.h>

#include "base/decision_log.h"
#include "base/status_macros.h"
#include "emulator/decode/record_decoder.h"
#include "emulator/decode/record_reading.h"
#include "graph/models/kernel_costs.h"

namespace vrank::emulator {

using graph::Op;
using graph::OpKind;
using protocol::Record;
using protocol::RecordKind;

absl::Status RecordDecoder::DecodeWork(const Record& record) {
  switch (record.kind) {
    case RecordKind::kKernel:
      return Kernel(record);
    case RecordKind::kGemm:
      return Gemm(record);
    case RecordKind::kCopy: {
      ASSIGN_OR_RETURN(const auto* copy, RecordAs<protocol::Copy>(record));
      RETURN_IF_ERROR(CheckWorkLane(copy->lane));
      if (!AtMost(copy->copy_kind, protocol::CopyKind::kHostToHost))
        return Malformed(
            fmt::format("copy kind {}", static_cast<uint32_t>(copy->copy_kind)));
      AppendWork(graph::WorkClass::kCopy, copy->lane, copy_name_, pricer_->Copy(*copy));
      return absl::OkStatus();
    }
    case RecordKind::kMemset: {
      ASSIGN_OR_RETURN(const auto* memset, RecordAs<protocol::Memset>(record));
      RETURN_IF_ERROR(CheckWorkLane(memset->lane));
      AppendWork(graph::WorkClass::kMemset, memset->lane, memset_name_,
                 pricer_->Memset(*memset));
      return absl::OkStatus();
    }
    default:
      return HostFunc(record);
    case RecordKind::kHostFuncEnd:
      return HostFuncEnd(record);
  }
}

void RecordDecoder::CountWork(uint32_t name, const graph::WorkCost& priced) {
  if (name >= kernels_.size())
    kernels_.resize(name + 1);
  KernelTotal& total = kernels_[name].totals[static_cast<size_t>(priced.source)];
  ++total.count;
  total.time_ns += priced.ns;
  total.unseen_ns += priced.unseen_ns;
  flops_ += priced.flops;
  moved_bytes_ += priced.bytes;
}

graph::WorkCost RecordDecoder::AtPresentClock(graph::WorkCost priced) {
  if (governor_)
    priced.ns = governor_->Run(priced);
  return priced;
}

void RecordDecoder::AppendWork(graph::WorkClass work, uint32_t lane, uint32_t name,
                               graph::WorkCost priced) {
  has_work_ = true;
  if (in_graph_ && learning_ != nullptr)
    learning_->costs.push_back(priced);
  priced = AtPresentClock(priced);
  CountWork(name, priced);
  Append(Op{.kind = OpKind::kWork,
            .source = priced.source,
            .work = work,
            .launch = 1,
            .lane = lane,
            .value = priced.ns,
            .a = name,
            .b = priced.unseen_ns});
}

absl::StatusOr<uint32_t> RecordDecoder::KernelId(uint32_t name) {
  if (name >= kernel_ids_.size())
    kernel_ids_.resize(name + 1, protocol::kNone);
  if (kernel_ids_[name] == protocol::kNone) {
    ASSIGN_OR_RETURN(kernel_ids_[name],
                     pricer_->DefineKernel(program_->details().names[name]));
  }
  return kernel_ids_[name];
}

absl::Status RecordDecoder::Kernel(const Record& record) {
  ASSIGN_OR_RETURN(const auto* kernel, RecordAs<protocol::Kernel>(record));
  ASSIGN_OR_RETURN(kernel, RecordAs<protocol::Kernel>(record, kernel->argument_bytes));
  RETURN_IF_ERROR(CheckWorkLane(kernel->lane));
  ASSIGN_OR_RETURN(const uint32_t name, Name(kernel->name));
  for (int i = 0; i < 3; ++i)
    if (kernel->grid[i] == 0 || kernel->block[i] == 0)
      return Malformed("a launch with an empty grid or block");
  const auto* arguments = reinterpret_cast<const std::byte*>(kernel + 1);
  const bool is_first =
      name >= kernel_ids_.size() || kernel_ids_[name] == protocol::kNone;
  ASSIGN_OR_RETURN(const uint32_t kernel_id, KernelId(name));
  ASSIGN_OR_RETURN(const graph::WorkCost priced,
                   pricer_->Kernel(kernel_id, *kernel,
                                   std::span(arguments, kernel->argument_bytes)));
  if (is_first || Logs(LogModule::pricing, 2)) [[unlikely]]
    LOG_DECISION(
        pricing, 1,
        "rank {}: {} ns ({}{}) for {} bytes and {} FLOPs in {} blocks of {}: {}", rank_,
        priced.ns, graph::Name(priced.source),
        priced.unknown_size ? ", size unknown" : "", priced.bytes, priced.flops,
        uint64_t{kernel->grid[0]} * kernel->grid[1] * kernel->grid[2],
        kernel->block[0] * kernel->block[1] * kernel->block[2],
        graph::Demangle(program_->details().names[name]));
  AppendWork(graph::WorkClass::kKernel, kernel->lane, name, priced);
  return absl::OkStatus();
}

absl::Status RecordDecoder::Gemm(const Record& record) {
  ASSIGN_OR_RETURN(const auto* gemm, RecordAs<protocol::Gemm>(record));
  RETURN_IF_ERROR(CheckWorkLane(gemm->lane));
  ASSIGN_OR_RETURN(const uint32_t name, Name(gemm->name));
  for (const protocol::ElementType type :
       {gemm->a_type, gemm->b_type, gemm->c_type, gemm->compute_type})
    if (!AtMost(type, protocol::ElementType::kTfloat32))
      return Malformed(fmt::format("element type {}", static_cast<int>(type)));
  AppendWork(graph::WorkClass::kGemm, gemm->lane, name, pricer_->Gemm(*gemm));
  return absl::OkStatus();
}

absl::Status RecordDecoder::HostFunc(const Record& record) {
  ASSIGN_OR_RETURN(const auto* function, RecordAs<protocol::HostFunc>(record));
  RETURN_IF_ERROR(CheckWorkLane(function->lane));
  RETURN_IF_ERROR(CheckSlot(function->slot, false));
  if (function->duration_ns < 0 || function->duration_ns > kMaxNs)
    return Malformed(fmt::format("a callback of {} ns", function->duration_ns));
  const uint64_t op = Append(Op{.kind = OpKind::kHostFunc,
                                .source = ValueSource(record),
                                .work = graph::WorkClass::kHostFunc,
                                .launch = 1,
                                .lane = function->lane,
                                .value = function->duration_ns,
                                .b = graph::kDurationUnknown});
  host_functions_open_[++host_functions_] = {op, function->duration_ns};
  Ask(op, function->slot);
  return absl::OkStatus();
}

absl::Status RecordDecoder::HostFuncEnd(const Record& record) {
  ASSIGN_OR_RETURN(const auto* end, RecordAs<protocol::HostFuncEnd>(record));
  if (end->took_ns < 0 || end->took_ns > kMaxNs)
    return Malformed(fmt::format("a host function of {} ns", end->took_ns));
  const auto open = host_functions_open_.find(end->number);
  if (open == host_functions_open_.end())
    return Malformed(
        fmt::format("host function {} returns, and is not there", end->number));
  const auto [op, cost_ns] = open->second;
  host_functions_open_.erase(open);
  sink_->OnHostFuncEnd(rank_, op, cost_ns + end->took_ns);
  return absl::OkStatus();
}

}  // namespace vrank::emulator
