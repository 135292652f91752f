#include "virtual_gpu/core/launch_records.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "virtual_gpu/core/kernel_code.h"
#include "virtual_gpu/core/launch_rules.h"
#include "virtual_gpu/core/stream_lanes.h"

namespace vrank::gpu {
namespace {

// Arguments of a launch that are recorded: all that it can have (CUDA C++ Programming
// Guide, "__global__ Function Parameters": 32,764 bytes from CUDA 12.1 on).
constexpr uint32_t kMaxArgumentBytes = 32764;

// Lays the known parameters out; returns how many bytes that are.
uint32_t PackArguments(const KernelLaunch& launch, const KernelSignature& signature,
                       unsigned char* out) {
  uint32_t used = 0;
  for (uint32_t i = 0; i < signature.known; ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    const unsigned char* at = ArgumentAt(launch, i);
    const uint32_t end = parameter.offset + parameter.size;
    if (at == nullptr || end > kMaxArgumentBytes)
      break;
    std::memset(out + used, 0, parameter.offset - used);
    std::memcpy(out + parameter.offset, at, parameter.size);
    used = end;
  }
  return used;
}

}  // namespace

void LaunchRecords::EmitKernel(const Stream& stream, const KernelLaunch& launch,
                               uint16_t flags) {
  protocol::Kernel record{};
  record.record.kind = protocol::RecordKind::kKernel;
  record.record.flags = flags;
  record.lane = stream.lane;
  record.name = kernels_.NumberOf(launch.kernel);
  BlocksOf(launch, record.grid);
  std::copy_n(launch.block, 3, record.block);
  record.shared_bytes = static_cast<uint32_t>(launch.shared_bytes);
  record.thread = launch.kernel->thread_work;
  if (!record.thread.known())
    record.reachable_bytes =
        effects_.ReachableBytes(launch, accounting_.program_bytes());
  unsigned char arguments[kMaxArgumentBytes];
  record.argument_bytes = PackArguments(launch, launch.kernel->signature, arguments);
  effects_.CompleteArguments(launch, arguments, record.argument_bytes);
  channel_->Emit(record, arguments, record.argument_bytes);
  if (notes_.listening()) [[unlikely]] {
    ActivityWork work;
    work.name = launch.kernel->name.c_str();
    std::copy_n(record.grid, 3, work.grid);
    std::copy_n(launch.block, 3, work.block);
    work.shared_bytes = record.shared_bytes;
    notes_.Work(stream, work);
  }
}

void LaunchRecords::EmitGemm(const Stream& stream, const GemmLaunch& launch,
                             uint16_t flags) {
  KernelCode* code = kernels_.Find(launch.name);
  protocol::Gemm record{};
  record.record.kind = protocol::RecordKind::kGemm;
  record.record.flags = flags;
  record.lane = stream.lane;
  record.name = kernels_.NumberOf(code);
  record.m = launch.m;
  record.n = launch.n;
  record.k = launch.k;
  record.batch = launch.batch;
  record.a_type = launch.a_type;
  record.b_type = launch.b_type;
  record.c_type = launch.c_type;
  record.compute_type = launch.compute_type;
  record.reads_c = launch.reads_c ? 1 : 0;
  record.alignment = launch.alignment;
  channel_->Emit(record);
  if (notes_.listening()) [[unlikely]] {
    ActivityWork work;
    work.name = code->name.c_str();
    notes_.Work(stream, work);
  }
}

void LaunchRecords::EmitHostFunction(Stream* stream, const HostCallParameters& what,
                                     uint16_t flags) {
  protocol::HostFunc record{};
  record.record.kind = protocol::RecordKind::kHostFunc;
  record.record.flags = flags;
  if (channel_->IsAssumed(HostCost::kHostFunction))
    record.record.flags |= protocol::kValueAssumed;
  record.lane = stream->lane;
  record.duration_ns =
      channel_->settings().host_costs_ns[static_cast<size_t>(HostCost::kHostFunction)];
  HostFunctions::Call call{what.function,
                           what.argument,
                           channel_->AskLater(record),
                           ++host_functions_issued_,
                           obligations_.AddForeign(),
                           stream->covers};
  if (notes_.listening()) [[unlikely]] {
    ActivityWork work;
    work.kind = ActivityWorkKind::kHostFunc;
    notes_.Work(*stream, work);
  }
  Merge(&stream->covers, {call.id});
  host_functions_.Add(stream->lane, std::move(call));
}

}  // namespace vrank::gpu
