// What the process uses of each device's memory: records of its changes, and what other
// processes of the node hold.
//
// Owns the sum of the program's own memory. Sizes are in bytes.
//
// Not thread-safe: the GPU's lock guards it, except AskOthers, which uses no state.

#ifndef VRANK_VIRTUAL_GPU_CORE_MEMORY_ACCOUNTING_H_
#define VRANK_VIRTUAL_GPU_CORE_MEMORY_ACCOUNTING_H_

#include <cstdint>
#include <type_traits>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/devices.h"

namespace vrank::gpu {

class MemoryAccounting {
 public:
  MemoryAccounting(Channel* channel, Devices& devices, Contents& contents,
                   ActivityNotes& notes)
      : channel_(channel), devices_(devices), contents_(contents), notes_(notes) {}

  // Runs a step of an allocator and records by how much the device's used memory has
  // changed. A step whose result is false or null has found no memory, which is
  // counted.
  template <typename Step>
  auto Record(int device, protocol::MemoryOwner owner, Step step);
  // The same for the program's memory that has no address of the program's: a profiler
  // hears of the change here.
  template <typename Step>
  auto RecordHidden(int device, Step step);
  // The change that the latest Record has found.
  int64_t change() const { return change_; }

  // The record of a change alone.
  void Emit(int device, int64_t delta, protocol::MemoryOwner owner);

  // What other processes hold of the node's GPU. See protocol::AskMemory. The emulator
  // answers once every other process of the node has come to this time of its own
  // clock, or can do nothing before.
  uint64_t AskOthers(int node_device, uint64_t bytes, bool begins_sharing);
  // Before `bytes` of the device are taken, or read as free: nothing where no other
  // process may use it. `lock`: given back meanwhile; nullptr where it cannot be.
  void ReadOthers(int device, uint64_t bytes, ApiLock* lock);

  // MemoryOwner::kProgram's, of all devices.
  uint64_t program_bytes() const { return program_bytes_; }

 private:
  Channel* const channel_;
  Devices& devices_;
  Contents& contents_;
  ActivityNotes& notes_;
  int64_t change_ = 0;
  uint64_t program_bytes_ = 0;
};

template <typename Step>
auto MemoryAccounting::Record(int device, protocol::MemoryOwner owner, Step step) {
  DeviceMemory& memory = contents_.memory(device);
  const uint64_t before = memory.used();
  auto emit = [&] {
    change_ = static_cast<int64_t>(memory.used() - before);
    if (change_ != 0)
      Emit(device, change_, owner);
  };
  if constexpr (std::is_void_v<decltype(step())>) {
    step();
    emit();
  } else {
    auto result = step();
    emit();
    if (!result)
      channel_->Count(LossId::kNoMemoryLeft, 1);
    return result;
  }
}

template <typename Step>
auto MemoryAccounting::RecordHidden(int device, Step step) {
  constexpr auto kProgram = protocol::MemoryOwner::kProgram;
  auto note = [&] {
    if (notes_.listening()) [[unlikely]]
      notes_.HiddenMemory(device, kProgram, change_);
  };
  if constexpr (std::is_void_v<decltype(step())>) {
    Record(device, kProgram, step);
    note();
  } else {
    auto result = Record(device, kProgram, step);
    note();
    return result;
  }
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_MEMORY_ACCOUNTING_H_
