// Kernels, GEMMs and host functions.

#include <algorithm>
#include <cstring>
#include <utility>

#include "virtual_gpu/core/launch_rules.h"
#include "virtual_gpu/core/loss_scale.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {
namespace {

// Arguments of a launch that are recorded: those in the first 4 KiB, which was the
// limit for all of them before CUDA 12.1. A tensor list behind that tells no cost.
constexpr uint32_t kMaxArgumentBytes = 4096;

// Blocks of a matrix with gaps that are marked row by row; beyond, as one.
constexpr uint64_t kMaxRowsMarked = 64;

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

KernelCode* ProcessGpu::FindKernel(const char* mangled_name) {
  std::lock_guard lock(kernels_mutex_);
  auto found = kernels_.find(mangled_name);
  if (found != kernels_.end())
    return found->second.get();
  KernelCode* const made = MakeKernel(mangled_name);
  kernels_.emplace(std::string_view(made->name), made);
  return made;
}

uint32_t ProcessGpu::RecordName(KernelCode* code) {
  if (code->record_name == 0) {
    code->record_name = channel_->Name(code->name);
    code->elements = ParseElementKernel(code->name);
    code->concat = ParseConcatKernel(code->name);
    code->list_copy_bytes = ParseListCopyKernel(code->name);
    code->reduction = ParseReduceKernel(code->name);
    code->updates_loss_scale = UpdatesLossScale(code->name);
  }
  return code->record_name;
}

Error ProcessGpu::CheckKernel(const KernelLaunch& launch) {
  return CheckLaunch(channel_->settings().gpu, launch);
}

Error ProcessGpu::LaunchKernel(const KernelLaunch& launch) {
  VRANK_RETURN_IF_FAILED(Reachable());
  VRANK_RETURN_IF_FAILED(CheckKernel(launch));
  CallScope call(activity_.TapOutsideCalls(), true, kLibraryLaunch);
  Lock lock(mutex_);
  Stream* stream = nullptr;
  if (const Error error = BeginOn(launch.stream, &stream); error != Error::kSuccess)
    return call.Leave(error);
  if (stream->device != CurrentDevice())
    return call.Leave(Error::kInvalidHandle);
  if (stream->capture != nullptr) [[unlikely]]
    return graphs_.Capture(stream, KernelContent(launch));
  channel_->Spend(HostCost::kLaunch);
  lanes_.Before(stream);
  EmitKernel(*stream, launch, 0);
  lanes_.After(stream);
  MarkWrites(launch);
  return Error::kSuccess;
}

// The addresses that the kernel gets. A structure passed by value may hold some; where
// its size is known they are found (with words that are none), else they may be any.
// Returns whether that is so.
template <typename Visit>
bool ProcessGpu::ForAddresses(const KernelLaunch& launch, Through through,
                              Visit visit) {
  const KernelSignature& signature = launch.kernel->signature;
  bool blind = !signature.complete;
  for (uint32_t i = 0; i < signature.count; ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    const bool is_struct = parameter.kind == ParameterKind::kStruct;
    const bool is_pointer = parameter.kind == ParameterKind::kPointer ||
                            (parameter.kind == ParameterKind::kConstPointer &&
                             through == Through::kAllPointers);
    if (!is_pointer && !is_struct)
      continue;
    const unsigned char* at = ArgumentAt(launch, i);
    const uint32_t bytes = is_struct ? parameter.size : sizeof(uint64_t);
    if (at == nullptr || bytes == 0) {
      blind = true;
      continue;
    }
    for (uint32_t word = 0; word + sizeof(uint64_t) <= bytes;
         word += sizeof(uint64_t)) {
      uint64_t address;
      std::memcpy(&address, at + word, sizeof address);
      visit(address);
    }
  }
  return blind;
}

uint64_t ProcessGpu::ReachableBytes(const KernelLaunch& launch) {
  reached_.clear();
  const bool blind =
      ForAddresses(launch, Through::kAllPointers, [this](uint64_t address) {
        if (const uint64_t end = contents_.ReachEnd(address); end != 0)
          reached_.emplace_back(end, address);
      });
  if (blind)
    return program_bytes_;
  // Of addresses with one end the lowest reaches what the others do.
  std::sort(reached_.begin(), reached_.end());
  uint64_t bytes = 0, last = 0;
  for (const auto& [end, address] : reached_)
    bytes += end == std::exchange(last, end) ? 0 : end - address;
  return bytes;
}

void ProcessGpu::EmitKernel(const Stream& stream, const KernelLaunch& launch,
                            uint16_t flags) {
  protocol::Kernel record{};
  record.record.kind = protocol::RecordKind::kKernel;
  record.record.flags = flags;
  record.lane = stream.lane;
  record.name = RecordName(launch.kernel);
  BlocksOf(launch, record.grid);
  std::copy_n(launch.block, 3, record.block);
  record.shared_bytes = static_cast<uint32_t>(launch.shared_bytes);
  record.thread = launch.kernel->thread_work;
  if (!record.thread.known())
    record.reachable_bytes = ReachableBytes(launch);
  unsigned char arguments[kMaxArgumentBytes];
  record.argument_bytes = PackArguments(launch, launch.kernel->signature, arguments);
  channel_->Emit(record, arguments, record.argument_bytes);
  if (activity_.listening()) [[unlikely]] {
    ActivityWork work;
    work.name = launch.kernel->name.c_str();
    std::copy_n(record.grid, 3, work.grid);
    std::copy_n(launch.block, 3, work.block);
    work.shared_bytes = record.shared_bytes;
    NoteWork(stream, work);
  }
}

void ProcessGpu::MarkWrites(const KernelLaunch& launch) {
  if (Compute(launch) || MarkElements(launch) || MarkConcat(launch) ||
      MarkListCopy(launch) || MarkReduction(launch) || MarkLossScale(launch))
    return;
  const char* writer = launch.kernel->name.c_str();
  // All that follows a pointer it may write through.
  const bool blind =
      ForAddresses(launch, Through::kPointersToWrite,
                   [&](uint64_t address) { contents_.WriteInReach(address, writer); });
  if (blind)
    MarkBlindWrite(*launch.kernel);
}

void ProcessGpu::MarkBlindWrite(const KernelCode& kernel) {
  contents_.WriteAnywhere(kernel.name.c_str());
  channel_->Count(LossId::kArgumentsUnknown, 1, kernel.name);
}

KernelWrites ProcessGpu::WritesOf(const KernelLaunch& launch) {
  KernelWrites writes;
  writes.blind = ForAddresses(launch, Through::kPointersToWrite, [&](uint64_t address) {
    if (contents_.DeviceOf(address) >= 0)
      writes.addresses.push_back(address);
  });
  return writes;
}

void ProcessGpu::MarkBlock(const WrittenBlock& block, const char* writer) {
  const auto begin = reinterpret_cast<uint64_t>(block.address);
  auto mark = [&](uint64_t address, uint64_t bytes) {
    const Allocation* allocation = contents_.Find(address);
    if (allocation != nullptr)
      contents_.Write(address,
                      std::min(bytes, allocation->bytes - (address - allocation->base)),
                      Origin::Computed(writer));
  };
  if (block.rows == 0 || block.row_bytes == 0)
    return;
  if (block.rows <= kMaxRowsMarked && block.pitch != block.row_bytes) {
    for (uint64_t row = 0; row < block.rows; ++row)
      mark(begin + row * block.pitch, block.row_bytes);
    return;
  }
  mark(begin, (block.rows - 1) * block.pitch + block.row_bytes);
}

Error ProcessGpu::LaunchGemm(const GemmLaunch& launch) {
  CallScope call(activity_.TapOutsideCalls(), true, kLibraryLaunch);
  Lock lock(mutex_);
  Stream* stream = nullptr;
  if (const Error error = BeginOn(launch.stream, &stream); error != Error::kSuccess)
    return call.Leave(error);
  if (stream->capture != nullptr) [[unlikely]]
    return graphs_.CaptureGemm(stream, launch);
  channel_->Spend(HostCost::kLaunch);
  lanes_.Before(stream);
  EmitGemm(*stream, launch, 0);
  lanes_.After(stream);
  MarkOutputs(launch);
  return Error::kSuccess;
}

void ProcessGpu::EmitGemm(const Stream& stream, const GemmLaunch& launch,
                          uint16_t flags) {
  KernelCode* code = FindKernel(launch.name);
  protocol::Gemm record{};
  record.record.kind = protocol::RecordKind::kGemm;
  record.record.flags = flags;
  record.lane = stream.lane;
  record.name = RecordName(code);
  record.m = launch.m;
  record.n = launch.n;
  record.k = launch.k;
  record.batch = launch.batch;
  record.a_type = launch.a_type;
  record.b_type = launch.b_type;
  record.c_type = launch.c_type;
  record.compute_type = launch.compute_type;
  record.reads_c = launch.reads_c ? 1 : 0;
  channel_->Emit(record);
  if (activity_.listening()) [[unlikely]] {
    ActivityWork work;
    work.name = code->name.c_str();
    NoteWork(stream, work);
  }
}

void ProcessGpu::MarkOutputs(const GemmLaunch& launch) {
  const char* writer = FindKernel(launch.name)->name.c_str();
  for (size_t i = 0; i < launch.output_count; ++i)
    MarkBlock(launch.outputs[i], writer);
}

Error ProcessGpu::LaunchHostFunction(void* handle, void (*function)(void*),
                                     void* argument) {
  if (function == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(BeginOn(handle, &stream));
  if (stream->capture != nullptr) [[unlikely]]
    return graphs_.Capture(stream, HostCallParameters{function, argument});
  channel_->Spend(HostCost::kLaunch);
  lanes_.Before(stream);
  EmitHostFunction(stream, {function, argument}, 0);
  lanes_.After(stream);
  return Error::kSuccess;
}

void ProcessGpu::EmitHostFunction(Stream* stream, const HostCallParameters& what,
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
  if (activity_.listening()) [[unlikely]] {
    ActivityWork work;
    work.kind = ActivityWorkKind::kHostFunc;
    NoteWork(*stream, work);
  }
  Merge(&stream->covers, {call.id});
  host_functions_.Add(stream->lane, std::move(call));
}

}  // namespace vrank::gpu
