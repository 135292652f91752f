// A virtual GPU on a fake channel, for the tests of the core.
//
// Thread rule: one test, one object.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CORE_GPU_FIXTURE_H_
#define VRANK_TESTS_VIRTUAL_GPU_CORE_GPU_FIXTURE_H_

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/virtual_gpu/core/fake_channel.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {

using protocol::RecordKind;

class GpuTest : public ::testing::Test {
 protected:
  explicit GpuTest(uint32_t devices = 1) {
    channel.mutable_settings().devices = devices;
    gpu = std::make_unique<ProcessGpu>(&channel);
    [[maybe_unused]] Error none = gpu->SetCurrentDevice(-1);
    EXPECT_EQ(gpu->EnsureContext(0), Error::kSuccess);
    channel.Clear();
  }

  void* NewStream(unsigned flags = 0) {
    void* stream = nullptr;
    EXPECT_EQ(gpu->CreateStream(flags, 0, &stream), Error::kSuccess);
    return stream;
  }
  void* NewEvent() {
    void* event = nullptr;
    EXPECT_EQ(gpu->CreateEvent(0, &event), Error::kSuccess);
    return event;
  }
  void* NewMemory(uint64_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(gpu->Allocate(bytes, &address), Error::kSuccess);
    return address;
  }
  uint32_t LaneOf(void* stream) {
    VirtualGpu::Stream found;
    EXPECT_TRUE(gpu->libraries().FindStream(stream, -1, &found, nullptr));
    return found.lane;
  }
  // void kernel(const float* in, float* out).
  Error Launch(void* stream, const void* in = nullptr, void* out = nullptr) {
    void* arguments[] = {&in, &out};
    KernelLaunch launch;
    launch.kernel = gpu->FindKernel("_Z6kernelPKfPf");
    launch.stream = stream;
    launch.arguments = arguments;
    return gpu->LaunchKernel(launch);
  }
  Error CopyBytes(void* to, const void* from, uint64_t bytes, void* stream = nullptr,
                  bool asynchronous = false) {
    return gpu->Copy({.to = to,
                      .from = from,
                      .row_bytes = bytes,
                      .stream = stream,
                      .asynchronous = asynchronous});
  }
  std::vector<RecordKind> Kinds() const {
    std::vector<RecordKind> kinds;
    for (const FakeChannel::Written& record : channel.records())
      kinds.push_back(record.kind);
    return kinds;
  }

  FakeChannel channel;
  std::unique_ptr<ProcessGpu> gpu;
};

}  // namespace vrank::gpu

#endif  // VRANK_TESTS_VIRTUAL_GPU_CORE_GPU_FIXTURE_H_
