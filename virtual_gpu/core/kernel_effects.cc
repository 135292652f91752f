#include "virtual_gpu/core/kernel_effects.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "virtual_gpu/core/address_words.h"
#include "virtual_gpu/core/kernel_code.h"
#include "virtual_gpu/core/named_effect.h"
#include "virtual_gpu/core/stored_addresses.h"

namespace vrank::gpu {
namespace {

// Blocks of a matrix with gaps that are marked row by row; beyond, as one.
constexpr uint64_t kMaxRowsMarked = 64;

enum class Through { kAllPointers, kPointersToWrite };

// The addresses that the kernel gets. A structure passed by value may hold some; where
// its size is known they are found (with words that are none), else they may be any.
// Returns whether that is so.
template <typename Visit>
bool ForAddresses(const KernelLaunch& launch, Through through, Visit visit) {
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
    ForAddressWords(launch, i, at, bytes,
                    [&](uint32_t, uint64_t word) { visit(word); });
  }
  return blind;
}

// Whether a structure among the arguments may hold a negative stride: then the kernel
// goes back from its addresses (torch.flip gets that of the last row).
bool MayStepBack(const KernelLaunch& launch) {
  const KernelSignature& signature = launch.kernel->signature;
  for (uint32_t i = 0; i < signature.count; ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    const unsigned char* const at = ArgumentAt(launch, i);
    if (parameter.kind != ParameterKind::kStruct || at == nullptr)
      continue;
    for (uint32_t word = 0; word + sizeof(int32_t) <= parameter.size;
         word += sizeof(int32_t)) {
      int32_t stride;
      std::memcpy(&stride, at + word, sizeof stride);
      if (stride < 0)
        return true;
    }
  }
  return false;
}

// The lowest addresses that the kernel may write to, of each pointer, from its machine
// code or its signature. Returns whether it may write through others, too.
template <typename Visit>
bool ForWrittenAddresses(const KernelLaunch& launch, Contents& contents, Visit visit) {
  std::optional<bool> steps_back;
  const auto reach = [&](uint64_t address) {
    const uint64_t begin = contents.ReachBegin(address);
    if (begin != address && !steps_back.has_value())
      steps_back = MayStepBack(launch);
    visit(steps_back.value_or(false) ? begin : address);
  };
  const auto stored = FindStoredAddresses(launch, contents);
  if (!stored.has_value())
    return ForAddresses(launch, Through::kPointersToWrite, reach);
  for (const uint64_t address : *stored)
    reach(address);
  return false;
}

}  // namespace

uint64_t KernelEffects::ReachableBytes(const KernelLaunch& launch, uint64_t all_bytes) {
  reached_.clear();
  const bool blind =
      ForAddresses(launch, Through::kAllPointers, [this](uint64_t address) {
        if (const uint64_t end = contents_.ReachEnd(address); end != 0)
          reached_.emplace_back(end, address);
      });
  if (blind)
    return all_bytes;
  // Of addresses with one end the lowest reaches what the others do.
  std::sort(reached_.begin(), reached_.end());
  uint64_t bytes = 0, last = 0;
  for (const auto& [end, address] : reached_)
    bytes += end == std::exchange(last, end) ? 0 : end - address;
  return bytes;
}

void KernelEffects::CompleteArguments(const KernelLaunch& launch,
                                      unsigned char* arguments, uint32_t bytes) {
  if (const NamedEffect* const named = launch.kernel->effect.get(); named != nullptr)
    named->CompleteArguments(launch, contents_, arguments, bytes);
}

uint64_t KernelEffects::DataOf(const KernelLaunch& launch) {
  if (const NamedEffect* const named = launch.kernel->effect.get(); named != nullptr)
    if (const std::optional<uint64_t> bytes = named->DataBytes(launch))
      return *bytes;
  // Structures that are passed by value have unused parts, in which old addresses
  // stand. A thread of an element-wise kernel has 16 bytes of each of three tensors.
  constexpr uint64_t kMostPerThread = 64;
  constexpr uint64_t kAnyBytes = ~uint64_t{0};
  return std::min(ReachableBytes(launch, kAnyBytes),
                  ThreadsOf(launch) * kMostPerThread);
}

bool KernelEffects::Apply(const KernelLaunch& launch) {
  contents_.NoteWork();
  // By name first: fills, copies and parts of sorts are exact, the first two also for
  // unknown bytes. A fill takes no memory, and a concatenation has one large grid for
  // all sizes.
  const NamedEffect* const named = launch.kernel->effect.get();
  if (named != nullptr && named->Compute(launch, contents_))
    return true;
  const char* made_up_by = nullptr;
  if (interpreter_.Considers(launch) &&
      interpreter_.Run(launch, DataOf(launch), &made_up_by)) {
    if (made_up_by != nullptr) [[unlikely]]
      ForWrittenAddresses(launch, contents_, [&](uint64_t address) {
        contents_.MakeUpInReach(address, made_up_by);
      });
    return true;
  }
  if (named != nullptr && named->Write(launch, contents_))
    return !interpreter_.has_assertion();
  const char* const writer = launch.kernel->writer();
  const bool blind = ForWrittenAddresses(launch, contents_, [&](uint64_t address) {
    contents_.WriteInReach(address, writer);
  });
  if (blind)
    WriteAnywhere(*launch.kernel);
  return !interpreter_.has_assertion();
}

void KernelEffects::Apply(const KernelCode& kernel, const KernelWrites& writes) {
  contents_.NoteWork();
  for (const uint64_t address : writes.addresses)
    contents_.WriteFrom(address, writes.writer);
  if (writes.blind)
    WriteAnywhere(kernel);
}

void KernelEffects::WriteAnywhere(const KernelCode& kernel) {
  contents_.WriteAnywhere(kernel.name.c_str());
  channel_->Count(LossId::kArgumentsUnknown, 1, kernel.name);
}

KernelWrites KernelEffects::WritesOf(const KernelLaunch& launch) {
  KernelWrites writes;
  writes.writer = contents_.NameWriter(launch.kernel->name.c_str(),
                                       "not computed: launched by a CUDA graph");
  writes.blind = ForWrittenAddresses(launch, contents_, [&](uint64_t address) {
    if (contents_.DeviceOf(address) >= 0)
      writes.addresses.push_back(address);
  });
  return writes;
}

void KernelEffects::WriteBlock(const WrittenBlock& block, const char* writer) {
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

void KernelEffects::Apply(const GemmLaunch& launch, const char* writer) {
  contents_.NoteWork();
  for (size_t i = 0; i < launch.output_count; ++i)
    WriteBlock(launch.outputs[i], writer);
}

}  // namespace vrank::gpu
