#include "virtual_nccl/core/arguments.h"

#include <functional>

#include <gtest/gtest.h>

#include "tests/virtual_nccl/nccl_fixture.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {
namespace {

class ArgumentsTest : public NcclTest {
 protected:
  ArgumentsTest() : communicator(MakeCommunicator(4, 1)) {}
  ncclComm_t communicator;
};

// One row: a change to a correct call, what the call then returns, and a word of the
// message.
struct Row {
  const char* what;
  std::function<void(Request*)> change;
  ncclResult_t result;
  const char* message;
};

TEST_F(ArgumentsTest, AnswersBadArgumentsAsNcclDoes) {
  unsigned char garbage[512] = {};
  const Row rows[] = {
      {"correct", [](Request*) {}, ncclSuccess, ""},
      {"null communicator", [](Request* r) { r->communicator = nullptr; },
       ncclInvalidArgument, "NULL"},
      {"corrupt communicator",
       [&](Request* r) { r->communicator = reinterpret_cast<ncclComm_t>(garbage); },
       ncclInvalidArgument, "no communicator"},
      {"root too high", [](Request* r) { r->root = 4; }, ncclInvalidArgument,
       "root 4 (root should be in the 0..3 range)"},
      {"root negative", [](Request* r) { r->root = -1; }, ncclInvalidArgument, "root"},
      {"type too high", [](Request* r) { r->type = ncclNumTypes; }, ncclInvalidArgument,
       "type 12"},
      {"type negative", [](Request* r) { r->type = -1; }, ncclInvalidArgument,
       "type -1"},
      {"reduction negative", [](Request* r) { r->reduction = -1; }, ncclInvalidArgument,
       "operation -1"},
      {"reduction unknown", [](Request* r) { r->reduction = ncclNumOps; },
       ncclInvalidArgument, "unknown to this communicator"},
      {"null buffers", [](Request* r) { r->send = r->receive = nullptr; }, ncclSuccess,
       ""},
      {"no elements", [](Request* r) { r->count = 0; }, ncclSuccess, ""},
      {"no elements, bad type",
       [](Request* r) {
         r->count = 0;
         r->type = ncclNumTypes;
       },
       ncclInvalidArgument, "type"},
      {"unknown stream",
       [](Request* r) { r->stream = reinterpret_cast<cudaStream_t>(0x77); },
       ncclUnhandledCudaError, "no stream"},
      {"stream of another device",
       [](Request* r) { r->stream = FakeGpu::StreamHandle(1, 5); },
       ncclUnhandledCudaError, "device 1"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Request request = Collective(Operation::kReduce, communicator);
    row.change(&request);
    channel.Clear();
    EXPECT_EQ(Enqueue(request), row.result);
    if (row.result != ncclSuccess) {
      EXPECT_NE(std::string(LastError()).find(row.message), std::string::npos)
          << LastError();
      EXPECT_TRUE(channel.records().empty());
    }
  }
}

TEST_F(ArgumentsTest, RefusesPeersOutsideOfTheCommunicator) {
  EXPECT_EQ(Enqueue(Transfer(Request::kSend, communicator, 4)), ncclInvalidArgument);
  EXPECT_EQ(Enqueue(Transfer(Request::kReceive, communicator, -1)),
            ncclInvalidArgument);
}

TEST_F(ArgumentsTest, DropsCollectivesOfNothing) {
  for (int operation = 0; operation <= 7; ++operation)
    EXPECT_EQ(Enqueue(Collective(static_cast<Operation>(operation), communicator, 0)),
              ncclSuccess);
  EXPECT_TRUE(channel.records().empty());
}

TEST_F(ArgumentsTest, NeedsComputeCapability9ForFloat8Reductions) {
  Request reduce = Collective(Operation::kAllReduce, communicator);
  reduce.type = ncclFloat8e4m3;
  Request gather = Collective(Operation::kAllGather, communicator);
  gather.type = ncclFloat8e5m2;
  EXPECT_EQ(Enqueue(reduce), ncclSuccess);
  channel.mutable_settings().gpu.compute_major = 8;
  EXPECT_EQ(Enqueue(reduce), ncclInvalidArgument);
  EXPECT_EQ(Enqueue(gather), ncclSuccess);
  reduce.count = 0;
  EXPECT_EQ(Enqueue(reduce), ncclSuccess);
}

TEST_F(ArgumentsTest, KnowsAReductionByItsCommunicatorAndType) {
  Communicator* mine = Communicator::From(communicator);
  Communicator* other = Communicator::From(MakeCommunicator(4, 1));
  ncclRedOp_t operation, reused;
  ASSERT_EQ(CreateReduction(mine, Times(ncclFloat32, 2), &operation), ncclSuccess);
  EXPECT_GE(operation, ncclNumOps);
  Request request = Collective(Operation::kAllReduce, communicator);
  request.reduction = operation;
  EXPECT_EQ(Enqueue(request), ncclSuccess);
  EXPECT_EQ(Records<protocol::Collective>(Kind::kCollective).back().reduction,
            protocol::Reduction::kPreMulSum);
  request.type = ncclFloat16;
  EXPECT_EQ(Enqueue(request), ncclInvalidArgument);
  request.type = ncclFloat32;
  request.communicator = other->handle();
  EXPECT_EQ(Enqueue(request), ncclInvalidArgument);
  EXPECT_EQ(DestroyReduction(other, operation), ncclInvalidArgument);
  EXPECT_EQ(DestroyReduction(mine, operation), ncclSuccess);
  EXPECT_EQ(DestroyReduction(mine, operation), ncclInvalidArgument);
  EXPECT_EQ(DestroyReduction(mine, ncclSum), ncclInvalidArgument);
  request.communicator = communicator;
  EXPECT_EQ(Enqueue(request), ncclInvalidArgument);
  ASSERT_EQ(CreateReduction(mine, Times(ncclFloat16, 2), &reused), ncclSuccess);
  EXPECT_EQ(reused, operation);
}

TEST_F(ArgumentsTest, LetsAReductionGoBeforeTheGroupEnds) {
  Communicator* mine = Communicator::From(communicator);
  ncclRedOp_t operation;
  ASSERT_EQ(CreateReduction(mine, Times(ncclFloat32, 2), &operation), ncclSuccess);
  Request request = Collective(Operation::kAllReduce, communicator);
  request.reduction = operation;
  group.Start();
  EXPECT_EQ(Enqueue(request), ncclSuccess);
  EXPECT_EQ(DestroyReduction(mine, operation), ncclSuccess);
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_EQ(channel.records(Kind::kCollective).size(), 1u);
}

}  // namespace
}  // namespace vrank::nccl
