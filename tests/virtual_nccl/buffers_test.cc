// Memory that NCCL, or its kernel, cannot use.

#include "virtual_nccl/core/buffers.h"

#include <gmock/gmock.h>

#include "tests/virtual_nccl/nccl_fixture.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

using ::testing::HasSubstr;

class BuffersTest : public NcclTest {
 protected:
  // What a launch says on stderr.
  std::string Launched(const Request& request) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Enqueue(request), ncclSuccess);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(BuffersTest, AreNotLookedAtByTheCallButByTheKernel) {
  ncclComm_t comm = MakeCommunicator(2, 0);
  struct {
    Request request;
    const void* bad;
    const char* name;
  } cases[] = {
      {Collective(Operation::kAllReduce, comm), send_buffer, "sendbuff"},
      {Collective(Operation::kAllReduce, comm), receive_buffer, "recvbuff"},
      {Transfer(Request::kSend, comm, 1), send_buffer, "sendbuff"},
      {Transfer(Request::kReceive, comm, 1), receive_buffer, "recvbuff"},
  };
  for (const auto& each : cases) {
    gpu.devices_of_memory = {{each.bad, VirtualGpu::kNoMemory}};
    gpu.faulted = false;
    channel.Clear();
    EXPECT_THAT(Launched(each.request), HasSubstr(std::string(" : ") + each.name));
    EXPECT_TRUE(gpu.faulted) << each.name;
    EXPECT_TRUE(channel.records().empty()) << each.name;
  }
}

TEST_F(BuffersTest, NullIsNoMemory) {
  Request request = Collective(Operation::kAllReduce, MakeCommunicator(2, 0));
  request.send = nullptr;
  EXPECT_THAT(Launched(request), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_TRUE(gpu.faulted);
}

// Their bytes would be counted modulo 2^64.
TEST_F(BuffersTest, HaveAnEndAmongTheAddresses) {
  for (const size_t count : {~size_t{0}, size_t{1} << 62, size_t{1} << 61}) {
    channel.Clear();
    gpu.faulted = false;
    EXPECT_THAT(
        Launched(Collective(Operation::kAllGather, MakeCommunicator(2, 0), count)),
        HasSubstr("more bytes than there are addresses"));
    EXPECT_TRUE(gpu.faulted);
    EXPECT_TRUE(channel.records().empty());
  }
}

TEST_F(BuffersTest, MayBeNullWhereTheOperationDoesNotUseThem) {
  Request request = Collective(Operation::kReduce, MakeCommunicator(2, 0));
  request.root = 1;
  request.receive = nullptr;
  EXPECT_EQ(Launched(request), "");
  Request empty = Transfer(Request::kSend, request.communicator, 1, 0);
  empty.send = nullptr;
  EXPECT_EQ(Launched(empty), "");
  EXPECT_FALSE(gpu.faulted);
}

TEST_F(BuffersTest, ACheckSaysWhatNcclSays) {
  gpu.devices_of_memory = {{send_buffer, VirtualGpu::kNoMemory}, {receive_buffer, 1}};
  const auto check = [&](const void* pointer) {
    return CheckPointer(library, pointer, "AllReduce", "sendbuff", 0);
  };
  EXPECT_EQ(check(send_buffer), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("is not a valid pointer"));
  EXPECT_EQ(check(nullptr), ncclInvalidArgument);
  EXPECT_EQ(check(receive_buffer), ncclInvalidArgument);
  EXPECT_THAT(LastError(),
              HasSubstr("allocated on device 1 mismatchs with NCCL device 0"));
  gpu.devices_of_memory[receive_buffer] = 0;
  EXPECT_EQ(check(receive_buffer), ncclSuccess);
}

TEST_F(BuffersTest, AGraphThatOutlivesItsCommunicatorFails) {
  ncclComm_t comm = MakeCommunicator(2, 0);
  gpu.captures = {{3, 1}};
  EXPECT_EQ(Enqueue(Transfer(Request::kSend, comm, 1)), ncclSuccess);
  ASSERT_EQ(gpu.captured.size(), 1u);
  gpu.captures.clear();
  EXPECT_EQ(Destroy(library, comm), ncclSuccess);
  channel.Clear();
  ::testing::internal::CaptureStderr();
  gpu.captured[0].second->Launch({0, 3}, 0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("ncclSend was launched after its communicator had been "
                        "destroyed"));
  EXPECT_TRUE(gpu.faulted);
  EXPECT_TRUE(channel.records().empty());
}

}  // namespace
}  // namespace vrank::nccl
