#include "base/communication_kernel.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace vrank {
namespace {

TEST(CommunicationKernelTest, StatesTheOperation) {
  const std::map<std::string, std::string> operations = {
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", "reduce_scatter"},
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "send_receive"},
      {"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
       "all_reduce"},
      {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "communication"},
      {"ncclDevKernel_Generic(x) [broadcast]", "broadcast"},
      {"forward-send [send]", "send"},
      {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
       "all_reduce"},
      {"void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>(aiter::RankData*)",
       "all_reduce"},
      {"void c10d::(anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>"
       "(c10::BFloat16*)",
       "all_reduce"},
      {"void c10d::symmetric_memory::two_shot_all_reduce_kernel<float>(float**)",
       "all_reduce"},
      {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)", "all_to_all"},
      {"_ZN7deep_ep9internode7combineILi2E13__nv_bfloat16EEvPiS2_", "all_to_all"},
      {"kuserbuffers_pushsend(int*, int*, int4*)", "send"},
      {"nvshmemi_barrier_on_stream_kernel(int)", "communication"},
  };
  for (const auto& [name, expected] : operations) {
    const auto operation = CommunicationOperation(name);
    ASSERT_TRUE(operation) << name;
    EXPECT_EQ(*operation, expected) << name;
  }
}

TEST(CommunicationKernelTest, LeavesComputationAlone) {
  for (const char* name :
       {"", "gemm", "void at::native::reduce_kernel<512, 1>(float*)",
        "void gemm<nvshmem_tensor>(float*)", "Memcpy DtoD (Device -> Device)",
        "void at::native::(anonymous namespace)::all_reduce_like<float>(float*)",
        "deep_ep::layout::get_dispatch_layout<256, 32>(int*)", "gemm [nothing]", " []"})
    EXPECT_FALSE(CommunicationOperation(name)) << name;
}

TEST(CommunicationKernelTest, AddsTheOperationOnce) {
  EXPECT_EQ(WithOperation("ncclDevKernel_AllReduce(x)", "all_reduce"),
            "ncclDevKernel_AllReduce(x)");
  const std::string generic = WithOperation("ncclDevKernel_Generic(x)", "all_gather");
  EXPECT_EQ(generic, "ncclDevKernel_Generic(x) [all_gather]");
  EXPECT_EQ(WithOperation(generic, "all_gather"), generic);
}

}  // namespace
}  // namespace vrank
