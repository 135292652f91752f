// A process with libnccl's core, a fake channel and a fake GPU; and requests for it.
//
// Thread rule: one thread.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_NCCL_FIXTURE_H_
#define VRANK_TESTS_VIRTUAL_NCCL_NCCL_FIXTURE_H_

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/virtual_gpu/core/fake_channel.h"
#include "tests/virtual_nccl/fake_gpu.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/group.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

class NcclTest : public ::testing::Test {
 protected:
  using Kind = protocol::RecordKind;
  using Operation = protocol::CollectiveKind;

  // A communicator, as ncclCommInitRank makes it. Forgets the records of that.
  ncclComm_t MakeCommunicator(int ranks, int rank) {
    const ncclUniqueId id = library.NewUniqueId(nullptr);
    ncclComm_t made = nullptr;
    EXPECT_EQ(InitRank(library, group,
                       {.function = "ncclCommInitRank",
                        .out = &made,
                        .ranks = ranks,
                        .rank = rank,
                        .ids = &id}),
              ncclSuccess);
    channel.Clear();
    return made;
  }

  // A correct call of one float32 collective; tests change what they are about.
  Request Collective(Operation operation, ncclComm_t communicator, size_t count = 8) {
    return {.function = "ncclTest",
            .operation = operation,
            .send = send_buffer,
            .receive = receive_buffer,
            .count = count,
            .type = ncclFloat32,
            .communicator = communicator,
            .stream = Stream(3)};
  }
  Request Transfer(Request::Kind kind, ncclComm_t communicator, int peer,
                   size_t count = 8) {
    return {.function = kind == Request::kSend ? "ncclSend" : "ncclRecv",
            .kind = kind,
            .send = kind == Request::kSend ? send_buffer : nullptr,
            .receive = kind == Request::kSend ? nullptr : receive_buffer,
            .count = count,
            .type = ncclFloat32,
            .root = peer,
            .communicator = communicator,
            .stream = Stream(3)};
  }
  // A scalar on the host; of float32, or not looked at.
  static UserReduction Times(ncclDataType_t type, float factor) {
    UserReduction reduction{type, true, nullptr, {}};
    memcpy(reduction.scalar.data(), &factor, sizeof factor);
    return reduction;
  }
  static cudaStream_t Stream(uint32_t lane, int device = 0) {
    return FakeGpu::StreamHandle(device, lane);
  }
  ncclResult_t Enqueue(const Request& request) {
    return nccl::Enqueue(library, group, request);
  }

  std::vector<Kind> Kinds() const {
    std::vector<Kind> kinds;
    for (const auto& record : channel.records())
      kinds.push_back(record.kind);
    return kinds;
  }
  template <typename T>
  std::vector<T> Records(Kind kind) const {
    std::vector<T> found;
    for (const auto& record : channel.records(kind))
      found.push_back(record.as<T>());
    return found;
  }

  FakeChannel channel;
  FakeGpu gpu{&channel};
  Library library{&channel, &gpu};
  Group group;
  alignas(64) unsigned char send_buffer[1 << 18] = {};
  alignas(64) unsigned char receive_buffer[1 << 18] = {};
};

}  // namespace vrank::nccl

#endif  // VRANK_TESTS_VIRTUAL_NCCL_NCCL_FIXTURE_H_
