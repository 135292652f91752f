// What one rank's process has in tests of libnccl on a held GPU: a device of host
// threads, and libnccl's core on the channel of a Guest.
//
// Thread rule: one thread.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_HELD_PROCESS_H_
#define VRANK_TESTS_VIRTUAL_NCCL_HELD_PROCESS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "gpu_hold/held_gpu.h"
#include "tests/emulator/world/fake_job.h"
#include "tests/gpu_hold/fake_device.h"
#include "tests/gpu_hold/fake_streams.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/group.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

inline int64_t SteadyNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
// Virtual time 0 of all jobs of the program.
inline int64_t TimeOriginNs() {
  static const int64_t origin_ns = SteadyNs();
  return origin_ns;
}

// What one rank's process has.
struct HeldProcess {
  explicit HeldProcess(emulator::Guest* guest)
      : gpu(Claimed(&guest->channel()), &streams, OptionsFor(&device)),
        nccl(&guest->channel(), &gpu) {
    streams.await_device = [this] { device.Synchronize(); };
  }

  static Channel* Claimed(Channel* channel) {
    EXPECT_TRUE(channel->ClaimRank());
    return channel;
  }

  static hold::HeldGpuOptions OptionsFor(hold::FakeDevice* device) {
    hold::HeldGpuOptions options;
    options.channels = 3;
    options.time_origin_ns = TimeOriginNs();
    options.make_driver = [device](std::string*) {
      return std::make_unique<hold::BorrowedDevice>(device);
    };
    return options;
  }
  ncclComm_t Init(int ranks, int rank, unsigned char id) {
    ncclUniqueId unique{};
    unique.internal[0] = static_cast<char>(id);
    ncclComm_t made = nullptr;
    EXPECT_EQ(InitRank(nccl, group,
                       {.function = "ncclCommInitRank",
                        .out = &made,
                        .ranks = ranks,
                        .rank = rank,
                        .ids = &unique}),
              ncclSuccess);
    return made;
  }
  // `of_thread`: of another thread than the test's own.
  ncclResult_t AllReduce(ncclComm_t communicator, uintptr_t stream = 1,
                         Group* of_thread = nullptr) {
    return Enqueue(
        nccl, of_thread != nullptr ? *of_thread : group,
        {.function = "ncclAllReduce",
         .send = buffer,
         .receive = buffer + 64,
         .count = 16,
         .type = ncclFloat32,
         .communicator = communicator,
         .stream = static_cast<cudaStream_t>(hold::FakeStreams::Stream(stream))});
  }

  hold::FakeDevice device;
  hold::FakeStreams streams;
  hold::HeldGpu gpu;
  Library nccl;
  Group group;
  unsigned char buffer[128] = {};
};

}  // namespace vrank::nccl

#endif  // VRANK_TESTS_VIRTUAL_NCCL_HELD_PROCESS_H_
