// The library itself, through its C interface: this program stands in for libcuda and
// for the preload library, and calls what a training program calls.

#include <dlfcn.h>
#include <nccl.h>

#include <cstring>

#include <gmock/gmock.h>

#include "base/guest/export.h"
#include "tests/virtual_gpu/core/fake_channel.h"
#include "tests/virtual_nccl/fake_gpu.h"

namespace vrank::nccl {
namespace {

FakeChannel& TheChannel() {
  static FakeChannel* const channel = new FakeChannel;
  return *channel;
}
FakeGpu& TheGpu() {
  static FakeGpu* const gpu = new FakeGpu(&TheChannel());
  return *gpu;
}

}  // namespace
}  // namespace vrank::nccl

extern "C" VRANK_EXPORT vrank::Channel* vrank_guest_channel(uint32_t abi) {
  return abi == vrank::Channel::kAbi ? &vrank::nccl::TheChannel() : nullptr;
}

extern "C" VRANK_EXPORT int cuGetExportTable(const void** table, const void* id) {
  static vrank::VirtualGpuTable ours;
  ours.gpu = &vrank::nccl::TheGpu();
  if (memcmp(id, vrank::kVirtualGpuTable, sizeof vrank::kVirtualGpuTable) != 0)
    return 1;
  *table = &ours;
  return 0;
}

namespace {
size_t last_allocation = 0;
}  // namespace
extern "C" VRANK_EXPORT cudaError_t cudaMalloc(void** address, size_t bytes) {
  last_allocation = bytes;
  *address = &last_allocation;
  return bytes < (size_t{5} << 20) ? cudaSuccess : cudaErrorMemoryAllocation;
}

namespace vrank::nccl {
namespace {

using protocol::CollectiveKind;
using protocol::RecordKind;

class EntryPointsTest : public ::testing::Test {
 protected:
  EntryPointsTest() {
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm, 4, id, 2), ncclSuccess);
    TheChannel().Clear();
  }
  ~EntryPointsTest() override { EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess); }

  protocol::Collective Only() {
    auto records = TheChannel().records(RecordKind::kCollective);
    EXPECT_EQ(records.size(), 1u);
    auto record = records.at(0).as<protocol::Collective>();
    TheChannel().Clear();
    return record;
  }
  void Expect(CollectiveKind operation, ncclResult_t result, uint32_t root = 0,
              protocol::Reduction reduction = protocol::Reduction::kSum) {
    SCOPED_TRACE(static_cast<int>(operation));
    EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(comm);
    auto record = Only();
    EXPECT_EQ(record.operation, operation);
    EXPECT_EQ(record.count, 6u);
    EXPECT_EQ(record.type, protocol::ElementType::kFloat16);
    EXPECT_EQ(record.root, root);
    EXPECT_EQ(record.reduction, reduction);
    EXPECT_EQ(record.lane, 9u);
  }

  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = FakeGpu::StreamHandle(0, 9);
  char from[256], to[256];
};

TEST_F(EntryPointsTest, PassOnEveryArgument) {
  using protocol::Reduction;
  Expect(CollectiveKind::kAllReduce,
         ncclAllReduce(from, to, 6, ncclFloat16, ncclMin, comm, stream), 0,
         Reduction::kMin);
  Expect(CollectiveKind::kAllGather,
         ncclAllGather(from, to, 6, ncclFloat16, comm, stream));
  Expect(CollectiveKind::kReduceScatter,
         ncclReduceScatter(from, to, 6, ncclFloat16, ncclAvg, comm, stream), 0,
         Reduction::kAvg);
  Expect(CollectiveKind::kBroadcast,
         ncclBroadcast(from, to, 6, ncclFloat16, 3, comm, stream), 3);
  Expect(CollectiveKind::kBroadcast, ncclBcast(to, 6, ncclFloat16, 1, comm, stream), 1);
  Expect(CollectiveKind::kReduce,
         ncclReduce(from, to, 6, ncclFloat16, ncclProd, 2, comm, stream), 2,
         Reduction::kProd);
  Expect(CollectiveKind::kAllToAll,
         ncclAlltoAll(from, to, 6, ncclFloat16, comm, stream));
  Expect(CollectiveKind::kGather, ncclGather(from, to, 6, ncclFloat16, 1, comm, stream),
         1);
  Expect(CollectiveKind::kScatter,
         ncclScatter(from, to, 6, ncclFloat16, 3, comm, stream), 3);
}

TEST_F(EntryPointsTest, HaveTwinsThatDoTheSame) {
  EXPECT_EQ(pncclAllReduce(from, to, 6, ncclFloat16, ncclSum, comm, stream),
            ncclSuccess);
  EXPECT_EQ(Only().operation, CollectiveKind::kAllReduce);
}

TEST_F(EntryPointsTest, FuseSendsAndReceives) {
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclSend(from, 6, ncclFloat16, 1, comm, stream), ncclSuccess);
  EXPECT_EQ(ncclRecv(to, 6, ncclFloat16, 3, comm, stream), ncclSuccess);
  EXPECT_TRUE(TheChannel().records(RecordKind::kPointToPoint).empty());
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  auto records = TheChannel().records(RecordKind::kPointToPoint);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].as<protocol::PointToPoint>().count, 2u);
}

TEST_F(EntryPointsTest, TellWhatACommunicatorIs) {
  int count = 0, rank = 0, device = -1;
  EXPECT_EQ(ncclCommCount(comm, &count), ncclSuccess);
  EXPECT_EQ(ncclCommUserRank(comm, &rank), ncclSuccess);
  EXPECT_EQ(ncclCommCuDevice(comm, &device), ncclSuccess);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(ncclCommCount(nullptr, &count), ncclInvalidArgument);
  EXPECT_EQ(ncclCommUserRank(comm, nullptr), ncclInvalidArgument);
  ncclResult_t health = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &health), ncclSuccess);
  EXPECT_EQ(health, ncclSuccess);
}

TEST_F(EntryPointsTest, AnswerQuestionsAboutTheLibrary) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
  EXPECT_STREQ(ncclGetErrorString(ncclInProgress), "NCCL operation in progress");
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_STREQ(ncclGetLastError(nullptr), "ncclGroupEnd: not in a group call.");
}

TEST_F(EntryPointsTest, SplitAndFinalize) {
  TheChannel().on_ask = [](const FakeChannel::Written&) {
    Answer answer;
    answer.value = uint64_t{2} << 32 | 1;
    return answer;
  };
  ncclComm_t child = nullptr;
  EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, nullptr), ncclSuccess);
  int rank = 0;
  EXPECT_EQ(ncclCommUserRank(child, &rank), ncclSuccess);
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(ncclCommFinalize(child), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
  TheChannel().on_ask = nullptr;
}

TEST_F(EntryPointsTest, InitializeInEveryWay) {
  ncclComm_t made = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId ids[2];
  EXPECT_EQ(ncclGetUniqueId(&ids[0]), ncclSuccess);
  EXPECT_EQ(ncclGetUniqueId(&ids[1]), ncclSuccess);
  EXPECT_NE(memcmp(&ids[0], &ids[1], sizeof ids[0]), 0);
  EXPECT_EQ(ncclCommInitRankConfig(&made, 4, ids[0], 1, &config), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(made), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankConfig(&made, 4, ids[0], 1, nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(made), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankScalable(&made, 4, 1, 2, ids, &config), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(made), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankScalable(&made, 4, 1, 5, ids, &config),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(&made, 1, nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(made), ncclSuccess);
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
}

TEST_F(EntryPointsTest, AllocateThroughTheRuntime) {
  void* memory = nullptr;
  EXPECT_EQ(ncclMemAlloc(&memory, 77), ncclSuccess);
  EXPECT_EQ(last_allocation, size_t{2} << 20);  // a whole piece of memory
  EXPECT_EQ(memory, &last_allocation);
  EXPECT_EQ(ncclMemAlloc(&memory, size_t{5} << 20), ncclUnhandledCudaError);
  EXPECT_EQ(ncclMemFree(memory), ncclSystemError);  // this program has no cudaFree
}

TEST_F(EntryPointsTest, RegisterAndForget) {
  void* handle = nullptr;
  EXPECT_EQ(ncclCommRegister(comm, from, sizeof from, &handle), ncclSuccess);
  EXPECT_NE(handle, nullptr);
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
  EXPECT_NE(ncclCommDeregister(comm, from), ncclSuccess);
}

TEST_F(EntryPointsTest, MakeReductions) {
  ncclRedOp_t operation;
  float scalar = 0.5;
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&operation, &scalar, ncclFloat16,
                                     ncclScalarHostImmediate, comm),
            ncclSuccess);
  EXPECT_EQ(ncclAllReduce(from, to, 6, ncclFloat16, operation, comm, stream),
            ncclSuccess);
  EXPECT_EQ(Only().reduction, protocol::Reduction::kPreMulSum);
  EXPECT_EQ(ncclRedOpDestroy(operation, comm), ncclSuccess);
  EXPECT_EQ(ncclRedOpDestroy(operation, comm), ncclInvalidArgument);
}

TEST_F(EntryPointsTest, SimulateAGroupWithoutLaunchingIt) {
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(from, to, 6, ncclFloat16, ncclSum, comm, stream),
            ncclSuccess);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_TRUE(TheChannel().records(RecordKind::kCollective).empty());
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(EntryPointsTest, DoNothingAfterFork) {
  TheChannel().is_detached = true;
  EXPECT_EQ(ncclAllReduce(from, to, 6, ncclFloat16, ncclSum, comm, stream),
            ncclUnhandledCudaError);
  TheChannel().is_detached = false;
}

}  // namespace
}  // namespace vrank::nccl
