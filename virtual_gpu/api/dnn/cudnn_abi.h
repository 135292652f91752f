// What cuDNN's headers say that this library needs: status codes, kinds of descriptors,
// names of attributes. Written out, since the build needs no cuDNN.
//
// Source of every number: cudnn_graph_v9.h, cudnn_version_v9.h and, of recurrent
// networks, cudnn_adv_v9.h of cuDNN 9.26; tests/virtual_gpu/dnn/abi_test.cc holds them
// against those where they are installed.
//
// Thread rule: constants.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_CUDNN_ABI_H_
#define VRANK_VIRTUAL_GPU_API_DNN_CUDNN_ABI_H_

#include <cstddef>
#include <cstdint>

namespace vrank::gpu::dnn {

// The newest release that a PyTorch which is tried was built against (2.15): PyTorch
// refuses a minor version older than its own, and takes every newer one.
inline constexpr int kMajor = 9, kMinor = 26, kPatch = 0;
inline constexpr size_t kVersion = kMajor * 10000 + kMinor * 100 + kPatch;
inline constexpr size_t kCudartVersion = 13000;  // CUDA 13.0, as libcudart here

enum Status : int {  // cudnnStatus_t
  kSuccess = 0,
  kNotInitialized = 1001,
  kBadParam = 2000,
  kBadParamNullPointer = 2002,
  kBadParamNotFinalized = 2004,
  kBadParamSizeInsufficient = 2006,
  kBadParamAttributeType = 2010,
  kBadParamDescriptorType = 2012,
  kNotSupported = 3000,
  kNotSupportedGraphPattern = 3001,
  kHostAllocationFailed = 4003,
  kDeviceAllocationFailed = 4004,
  kExecutionFailed = 5000,
};

enum class DataType : int {  // cudnnDataType_t
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kBfloat16 = 9,
};

enum class Cell : int {  // cudnnRNNMode_t
  kRelu = 0,
  kTanh = 1,
  kLstm = 2,
  kGru = 3,
};

enum class RecurrentBias : int {  // cudnnRNNBiasMode_t
  kNone = 0,
  kInput = 1,
  kBoth = 2,
  kRecurrent = 3,
};

enum RecurrentAlgorithm : int {  // cudnnRNNAlgo_t
  kStandard = 0,
  kPersistSmall = 3,  // the last one
};

inline constexpr int kOneDirection = 0, kTwoDirections = 1;  // cudnnDirectionMode_t
inline constexpr int kLinearInput = 0;                       // cudnnRNNInputMode_t
inline constexpr int kForwardForTraining = 1;                // cudnnForwardMode_t
inline constexpr int kLastDataLayout = 2;                    // cudnnRNNDataLayout_t
inline constexpr int kFmaMath = 3;                           // cudnnMathType_t

enum NumericalNote : int32_t {  // cudnnBackendNumericalNote_t
  kTensorCore = 0,
  kWinograd = 5,
};

enum class AttributeType : int {  // cudnnBackendAttributeType_t
  kHandle = 0,
  kBoolean = 2,
  kInt64 = 3,
  kDouble = 5,
  kVoidPointer = 6,
  kNumericalNote = 11,
  kDescriptor = 15,
  kChar = 24,
  kFraction = 26,
  kReshapeMode = 31,
  kLast = 32,
};

enum class DescriptorType : int {  // cudnnBackendDescriptorType_t
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kOperationConvolutionForward = 10,
  kOperationConvolutionBackwardFilter = 11,
  kOperationConvolutionBackwardData = 12,
  kOperationPointwise = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kOperationMatmul = 19,
  kOperationReduction = 22,
  kOperationReshape = 31,
  kOperationRng = 33,
  kOperationSdpaForward = 41,
  kLast = 50,
};

enum class AttributeName : int {  // cudnnBackendAttributeName_t
  kPointwiseMode = 0,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kEngineConfigEngine = 300,
  kEngineConfigWorkspace = 303,
  kEngineConfigSharedMemory = 304,
  kPlanEngineConfig = 401,
  kPlanWorkspace = 402,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardDataConvolution = 708,
  kBackwardDataW = 709,
  kBackwardDataDx = 710,
  kBackwardDataDy = 711,
  kBackwardFilterConvolution = 714,
  kBackwardFilterDw = 715,
  kBackwardFilterX = 716,
  kBackwardFilterDy = 717,
  kOperationPointwiseDescriptor = 750,
  kOperationPointwiseX = 751,
  kOperationPointwiseB = 752,
  kOperationPointwiseY = 753,
  kGraphOperations = 801,
  kGraphEngineCount = 802,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorUniqueId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackUniqueIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineNumericalNotes = 1303,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kReductionY = 1611,
  kSdpaQ = 2800,
  kSdpaV = 2802,
  kSdpaO = 2803,
  kSdpaStatistics = 2804,
};

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_CUDNN_ABI_H_
