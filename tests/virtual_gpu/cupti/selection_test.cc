// libcupti: kinds, functions and contexts that are recorded, and from which call on.

#include "tests/virtual_gpu/cupti/cupti_fixture.h"

namespace vrank::cupti {
namespace {

class CuptiSelectionTest : public CuptiTest {
 protected:
  CuptiSelectionTest() { RegisterBuffers(); }

  static void Kernel(uint32_t n, uint32_t context = 1) {
    gpu::ActivityWork work;
    work.correlation = Id(n);
    work.context = context;
    work.name = "kernel";
    Listener().OnWork(work);
  }
  static std::vector<uint32_t> CbidsSeen() {
    std::vector<uint32_t> cbids;
    for (auto* record : RecordsAs<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME))
      cbids.push_back(record->cbid);
    return cbids;
  }
};

TEST_F(CuptiSelectionTest, ListensOnlyWhileSomethingIsWanted) {
  EXPECT_EQ(TheActivity().listener, nullptr);
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
  EXPECT_NE(TheActivity().listener, nullptr);
  EXPECT_CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY));
  EXPECT_EQ(TheActivity().listener, nullptr);
}

// A call is reported later than it is made; what counts is when it was made.
TEST_F(CuptiSelectionTest, DecidesByTheTimeOfTheCall) {
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_OVERHEAD));
  gpu::ActivityListener* const listener = TheActivity().listener;
  Enter("cudaLaunchKernel", 1);  // before kernels are wanted
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  Enter("cudaLaunchKernel", 2);
  EXPECT_CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  EXPECT_CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_OVERHEAD));
  gpu::ActivityWork work;
  for (uint32_t n : {1, 2, 3}) {
    work.correlation = Id(n);
    listener->OnWork(work);
  }
  auto kernels =
      RecordsAs<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0]->correlationId, Id(2));
}

TEST_F(CuptiSelectionTest, ChoosesSingleFunctions) {
  // "User can call this API without using the activity kind"
  EXPECT_CUPTI(cuptiActivityEnableRuntimeApi(
      CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, 1));
  Report("cudaMalloc", 1);
  Report("cudaLaunchKernel", 2);
  Report("cuLaunchKernel", 3, 10, 20, true);
  EXPECT_THAT(CbidsSeen(),
              ::testing::ElementsAre(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000));
  // "overrides the settings done by this API if it is called after the API"
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME));
  EXPECT_CUPTI(
      cuptiActivityEnableRuntimeApi(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, 0));
  Report("cudaGetDevice", 4);
  Report("cudaMalloc", 5);
  EXPECT_THAT(CbidsSeen(),
              ::testing::ElementsAre(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
                                     CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020));
  EXPECT_EQ(cuptiActivityEnableRuntimeApi(0, 1), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiActivityEnableDriverApi(5000, 1), CUPTI_ERROR_INVALID_PARAMETER);
}

// "This setting [...] will supersede the global settings"
TEST_F(CuptiSelectionTest, AContextsChoiceSupersedesTheGlobalOne) {
  const auto first = reinterpret_cast<CUcontext>(uintptr_t{1});
  uint32_t id = 0;
  ASSERT_EQ(cuptiGetContextId(first, &id), CUPTI_SUCCESS);
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  EXPECT_CUPTI(
      cuptiActivityDisableContext(first, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  Kernel(1, id);
  Kernel(2, id + 1);
  EXPECT_CUPTI(
      cuptiActivityEnableContext(first, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  Kernel(3, id);
  auto kernels =
      RecordsAs<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0]->correlationId, Id(2));
  EXPECT_EQ(kernels[1]->correlationId, Id(3));
  EXPECT_EQ(cuptiActivityEnableContext(nullptr, CUPTI_ACTIVITY_KIND_MEMCPY),
            CUPTI_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuptiActivityEnableContext(first, CUPTI_ACTIVITY_KIND_RUNTIME),
            CUPTI_ERROR_NOT_COMPATIBLE);
}

TEST_F(CuptiSelectionTest, RangesBelongToTheTimeAtWhichTheyWereMade) {
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_OVERHEAD));
  TheActivity().now_ns = 2'000;
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MARKER));
  TheActivity().now_ns = 3'000;
  EXPECT_CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MARKER));
  for (int64_t time : {1'500, 2'500, 3'500}) {
    gpu::ActivityRange range;
    range.time_ns = time;
    Listener().OnRange(range);
  }
  auto markers = RecordsAs<CUpti_ActivityMarker2>(CUPTI_ACTIVITY_KIND_MARKER);
  ASSERT_EQ(markers.size(), 1u);
  EXPECT_EQ(markers[0]->timestamp, Stamp(2'500));
}

TEST_F(CuptiSelectionTest, RefusesKindsThatAreNotModelled) {
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_JIT), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_INVALID), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_COUNT), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_PC_SAMPLING),
            CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED);
  EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_NVLINK), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(TheActivity().listener, nullptr);
  // One of the two ways to record kernels can be on.
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL));
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
            CUPTI_ERROR_NOT_COMPATIBLE);
  Kernel(1);
  EXPECT_EQ(RecordsAs<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_KERNEL).size(), 1u);
}

}  // namespace
}  // namespace vrank::cupti
