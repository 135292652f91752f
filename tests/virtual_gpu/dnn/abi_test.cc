// The numbers of cudnn_abi.h against NVIDIA's header, where there is one.

#include <gtest/gtest.h>

#include "virtual_gpu/api/dnn/cudnn_abi.h"

#if __has_include(<cudnn_graph_v9.h>)
#include <cudnn_graph_v9.h>
#include <cudnn_version_v9.h>
#define HAS_CUDNN_HEADERS 1
#endif

namespace vrank::gpu::dnn {
namespace {

TEST(CudnnAbiTest, NumbersAreThoseOfTheHeader) {
#ifndef HAS_CUDNN_HEADERS
  GTEST_SKIP() << "no header of cuDNN here";
#else
  EXPECT_EQ(kMajor, CUDNN_MAJOR);
  EXPECT_GE(kMinor, CUDNN_MINOR);
#define SAME(ours, theirs) EXPECT_EQ(static_cast<int>(ours), static_cast<int>(theirs))
  SAME(kNotInitialized, CUDNN_STATUS_NOT_INITIALIZED);
  SAME(kBadParam, CUDNN_STATUS_BAD_PARAM);
  SAME(kBadParamNullPointer, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  SAME(kBadParamNotFinalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  SAME(kBadParamSizeInsufficient, CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
  SAME(kBadParamAttributeType, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  SAME(kBadParamDescriptorType, CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
  SAME(kNotSupported, CUDNN_STATUS_NOT_SUPPORTED);
  SAME(kNotSupportedGraphPattern, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
  SAME(kHostAllocationFailed, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  SAME(kExecutionFailed, CUDNN_STATUS_EXECUTION_FAILED);
  SAME(DataType::kHalf, CUDNN_DATA_HALF);
  SAME(DataType::kBfloat16, CUDNN_DATA_BFLOAT16);
  SAME(AttributeType::kHandle, CUDNN_TYPE_HANDLE);
  SAME(AttributeType::kBoolean, CUDNN_TYPE_BOOLEAN);
  SAME(AttributeType::kInt64, CUDNN_TYPE_INT64);
  SAME(AttributeType::kDouble, CUDNN_TYPE_DOUBLE);
  SAME(AttributeType::kVoidPointer, CUDNN_TYPE_VOID_PTR);
  SAME(AttributeType::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  SAME(AttributeType::kChar, CUDNN_TYPE_CHAR);
  SAME(AttributeType::kFraction, CUDNN_TYPE_FRACTION);
#define DESCRIPTOR(ours, theirs) \
  SAME(DescriptorType::ours, CUDNN_BACKEND_##theirs##_DESCRIPTOR)
  DESCRIPTOR(kPointwise, POINTWISE);
  DESCRIPTOR(kEngine, ENGINE);
  DESCRIPTOR(kEngineConfig, ENGINECFG);
  DESCRIPTOR(kEngineHeuristics, ENGINEHEUR);
  DESCRIPTOR(kExecutionPlan, EXECUTION_PLAN);
  DESCRIPTOR(kOperationPointwise, OPERATION_POINTWISE);
  DESCRIPTOR(kOperationGraph, OPERATIONGRAPH);
  DESCRIPTOR(kVariantPack, VARIANT_PACK);
  DESCRIPTOR(kTensor, TENSOR);
  DESCRIPTOR(kOperationMatmul, OPERATION_MATMUL);
  DESCRIPTOR(kOperationReduction, OPERATION_REDUCTION);
  DESCRIPTOR(kOperationReshape, OPERATION_RESHAPE);
  DESCRIPTOR(kOperationRng, OPERATION_RNG);
  DESCRIPTOR(kOperationSdpaForward, OPERATION_SDPA_FWD);
#define ATTRIBUTE(ours, theirs) SAME(AttributeName::ours, CUDNN_ATTR_##theirs)
  ATTRIBUTE(kPointwiseMode, POINTWISE_MODE);
  ATTRIBUTE(kHeuristicsGraph, ENGINEHEUR_OPERATION_GRAPH);
  ATTRIBUTE(kHeuristicsResults, ENGINEHEUR_RESULTS);
  ATTRIBUTE(kEngineConfigEngine, ENGINECFG_ENGINE);
  ATTRIBUTE(kEngineConfigWorkspace, ENGINECFG_WORKSPACE_SIZE);
  ATTRIBUTE(kEngineConfigSharedMemory, ENGINECFG_SHARED_MEMORY_USED);
  ATTRIBUTE(kPlanEngineConfig, EXECUTION_PLAN_ENGINE_CONFIG);
  ATTRIBUTE(kPlanWorkspace, EXECUTION_PLAN_WORKSPACE_SIZE);
  ATTRIBUTE(kOperationPointwiseDescriptor, OPERATION_POINTWISE_PW_DESCRIPTOR);
  ATTRIBUTE(kOperationPointwiseX, OPERATION_POINTWISE_XDESC);
  ATTRIBUTE(kOperationPointwiseB, OPERATION_POINTWISE_BDESC);
  ATTRIBUTE(kOperationPointwiseY, OPERATION_POINTWISE_YDESC);
  ATTRIBUTE(kGraphOperations, OPERATIONGRAPH_OPS);
  ATTRIBUTE(kGraphEngineCount, OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
  ATTRIBUTE(kTensorDataType, TENSOR_DATA_TYPE);
  ATTRIBUTE(kTensorDimensions, TENSOR_DIMENSIONS);
  ATTRIBUTE(kTensorUniqueId, TENSOR_UNIQUE_ID);
  ATTRIBUTE(kTensorIsVirtual, TENSOR_IS_VIRTUAL);
  ATTRIBUTE(kTensorIsByValue, TENSOR_IS_BY_VALUE);
  ATTRIBUTE(kPackUniqueIds, VARIANT_PACK_UNIQUE_IDS);
  ATTRIBUTE(kPackPointers, VARIANT_PACK_DATA_POINTERS);
  ATTRIBUTE(kPackWorkspace, VARIANT_PACK_WORKSPACE);
  ATTRIBUTE(kEngineGraph, ENGINE_OPERATION_GRAPH);
  ATTRIBUTE(kEngineIndex, ENGINE_GLOBAL_INDEX);
  ATTRIBUTE(kMatmulA, OPERATION_MATMUL_ADESC);
  ATTRIBUTE(kMatmulB, OPERATION_MATMUL_BDESC);
  ATTRIBUTE(kMatmulC, OPERATION_MATMUL_CDESC);
  ATTRIBUTE(kReductionY, OPERATION_REDUCTION_YDESC);
#if CUDNN_MAJOR * 100 + CUDNN_MINOR >= 926
  SAME(AttributeType::kReshapeMode, CUDNN_TYPE_RESHAPE_MODE);
  SAME(AttributeType::kLast, CUDNN_TYPE_OPERATIONGRAPH_MODE);
  SAME(DescriptorType::kLast, CUDNN_BACKEND_OPERATION_ROPE_BWD_DESCRIPTOR);
#endif
#if CUDNN_MAJOR * 100 + CUDNN_MINOR >= 919
  ATTRIBUTE(kSdpaQ, OPERATION_SDPA_FWD_QDESC);
  ATTRIBUTE(kSdpaV, OPERATION_SDPA_FWD_VDESC);
  ATTRIBUTE(kSdpaO, OPERATION_SDPA_FWD_ODESC);
  ATTRIBUTE(kSdpaStatistics, OPERATION_SDPA_FWD_STATSDESC);
#endif
#endif
}

}  // namespace
}  // namespace vrank::gpu::dnn
