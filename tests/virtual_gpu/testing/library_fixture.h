// The virtual GPU of a test program, found as the libraries beside libcuda find it:
// through cuGetExportTable. The program must export its symbols (ENABLE_EXPORTS).
//
// One GPU and one fake channel per program, because the libraries look only once.
//
// Thread rule: one test at a time.

#ifndef VRANK_TESTS_VIRTUAL_GPU_TESTING_LIBRARY_FIXTURE_H_
#define VRANK_TESTS_VIRTUAL_GPU_TESTING_LIBRARY_FIXTURE_H_

#include <cstring>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/export.h"
#include "tests/virtual_gpu/core/fake_channel.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {

inline FakeChannel& TheChannel() {
  static FakeChannel* channel = [] {
    auto* made = new FakeChannel;
    protocol::Settings& settings = made->mutable_settings();
    settings.devices = settings.local_world_size = settings.world_size = 2;
    settings.gpu.nvlinks = 18;
    settings.gpu.memory_clock_khz = 2'619'000;
    return made;
  }();
  return *channel;
}

inline ProcessGpu& TheGpu() {
  static ProcessGpu* gpu = new ProcessGpu(&TheChannel());
  return *gpu;
}

class LibraryTest : public ::testing::Test {
 protected:
  LibraryTest() {
    EXPECT_EQ(TheGpu().SetCurrentDevice(0), Error::kSuccess);
    EXPECT_EQ(TheGpu().EnsureContext(0), Error::kSuccess);
    TheChannel().Clear();
  }

  template <typename T>
  T* NewMemory(size_t count) {
    void* address = nullptr;
    EXPECT_EQ(TheGpu().Allocate(count * sizeof(T), &address), Error::kSuccess);
    return static_cast<T*>(address);
  }
  protocol::Gemm LastGemm() {
    auto records = TheChannel().records(protocol::RecordKind::kGemm);
    EXPECT_FALSE(records.empty());
    return records.empty() ? protocol::Gemm{} : records.back().as<protocol::Gemm>();
  }
  size_t Gemms() { return TheChannel().records(protocol::RecordKind::kGemm).size(); }
  // Whether a kernel wrote the first byte at `address` last.
  bool IsComputed(const void* address) {
    auto pieces = TheGpu().libraries().Inspect(address, 1);
    return pieces.size() == 1 && pieces[0].state == protocol::PayloadState::kComputed;
  }
  void Upload(void* to, const void* from, size_t bytes) {
    EXPECT_EQ(TheGpu().Copy({.to = to, .from = from, .row_bytes = bytes}),
              Error::kSuccess);
  }
};

}  // namespace vrank::gpu

extern "C" VRANK_EXPORT inline __attribute__((used)) int cuGetExportTable(
    const void** table, const void* uuid) {
  static vrank::VirtualGpuTable ours;
  if (std::memcmp(uuid, vrank::kVirtualGpuTable, sizeof vrank::kVirtualGpuTable) != 0)
    return 1;
  ours.gpu = &vrank::gpu::TheGpu().libraries();
  ours.runtime = &vrank::gpu::TheGpu();
  *table = &ours;
  return 0;
}

// Where refusals are counted.
extern "C" VRANK_EXPORT inline __attribute__((used)) vrank::Channel*
vrank_guest_channel(uint32_t abi) {
  return abi == vrank::Channel::kAbi ? &vrank::gpu::TheChannel() : nullptr;
}

#endif  // VRANK_TESTS_VIRTUAL_GPU_TESTING_LIBRARY_FIXTURE_H_
