// libcudnn's batch normalisation by the calls that came before the graph API, which
// PyTorch makes. Without a fused activation: descriptors of those are refused.

#include <array>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/guest/export.h"
#include "virtual_gpu/api/dnn/batch_norm_kernels.h"
#include "virtual_gpu/api/dnn/handle.h"
#include "virtual_gpu/api/dnn/legacy_tensor.h"
#include "virtual_gpu/api/gpu_access.h"

#define CUDNN_ENTRY extern "C" VRANK_EXPORT int

namespace {

using vrank::gpu::dnn::BatchNormPass;
using vrank::gpu::dnn::BatchNormShape;
using vrank::gpu::dnn::DataType;
using vrank::gpu::dnn::ElementsOf;
using vrank::gpu::dnn::Fail;
using vrank::gpu::dnn::IsHandle;
using vrank::gpu::dnn::IsSet;
using vrank::gpu::dnn::kBadParam;
using vrank::gpu::dnn::kExecutionFailed;
using vrank::gpu::dnn::kNotSupported;
using vrank::gpu::dnn::kSuccess;

enum Mode : int { kPerActivation = 0, kSpatial = 1, kSpatialPersistent = 2 };
constexpr int kNoActivation = 0;  // cudnnBatchNormOps_t

std::optional<BatchNormShape> ShapeOf(int mode, const cudnnTensorStruct* x) {
  if (!IsSet(x) || x->dimensions.size() < 2 || mode < kPerActivation ||
      mode > kSpatialPersistent)
    return std::nullopt;
  BatchNormShape shape;
  shape.type = x->type;
  const uint64_t images = static_cast<uint64_t>(x->dimensions[0]);
  const uint64_t elements = ElementsOf(*x);
  shape.channels = static_cast<uint32_t>(mode == kPerActivation
                                             ? elements / images
                                             : static_cast<uint64_t>(x->dimensions[1]));
  shape.per_channel = elements / shape.channels;
  shape.channels_last = mode != kPerActivation && x->dimensions[1] > 1 &&
                        x->strides[1] == 1 && shape.per_channel > images;
  return shape;
}

int Launch(const cudnnContext* handle, const char* call, BatchNormPass pass, int mode,
           const cudnnTensorStruct* x, std::initializer_list<void*> written) {
  const std::optional<BatchNormShape> shape = ShapeOf(mode, x);
  if (!IsHandle(handle) || !shape)
    return Fail(kBadParam, std::string(call) + ": no handle, mode or descriptor");
  std::vector<void*> outputs;
  for (void* output : written)
    if (output != nullptr)
      outputs.push_back(output);
  const vrank::gpu::Error error = vrank::gpu::dnn::LaunchBatchNorm(
      vrank::gpu::FindGpu(), handle->stream, pass, *shape, outputs);
  return error == vrank::gpu::Error::kSuccess
             ? kSuccess
             : Fail(kExecutionFailed, std::string(call) + ": a launch failed");
}

int RefuseActivation(const char* call) {
  return Fail(kNotSupported, std::string(call) + ": an activation is not modelled");
}

int GiveBytes(const cudnnContext* handle, const char* call, int mode, int operations,
              const cudnnTensorStruct* x, size_t* bytes, bool takes_any) {
  const std::optional<BatchNormShape> shape = ShapeOf(mode, x);
  if (!IsHandle(handle) || !shape || bytes == nullptr)
    return Fail(kBadParam, std::string(call) + ": no handle, descriptor or result");
  if (operations != kNoActivation)
    return RefuseActivation(call);
  // Where blocks share the channels, each leaves two sums for each of them.
  *bytes =
      takes_any && shape->channels_last
          ? size_t{vrank::gpu::FindGpu()->channel()->settings().gpu.multiprocessors} *
                shape->channels * 2 * sizeof(float)
          : 0;
  return kSuccess;
}

}  // namespace

CUDNN_ENTRY cudnnDeriveBNTensorDescriptor(cudnnTensorStruct* derived,
                                          const cudnnTensorStruct* x, int mode) {
  if (!ShapeOf(mode, x) || derived == nullptr ||
      derived->magic != cudnnTensorStruct::kValid)
    return Fail(kBadParam, "cudnnDeriveBNTensorDescriptor: no descriptor or mode");
  derived->type = x->type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  derived->dimensions = x->dimensions;
  derived->dimensions[0] = 1;
  for (size_t i = 2; mode != kPerActivation && i < derived->dimensions.size(); ++i)
    derived->dimensions[i] = 1;
  derived->strides.assign(derived->dimensions.size(), 1);
  for (size_t i = derived->dimensions.size() - 1; i-- > 0;)
    derived->strides[i] = derived->strides[i + 1] * derived->dimensions[i + 1];
  return kSuccess;
}

CUDNN_ENTRY cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnContext* handle, int mode, int operations, const cudnnTensorStruct* x,
    const cudnnTensorStruct*, const cudnnTensorStruct*, const cudnnTensorStruct*,
    const void*, size_t* bytes) {
  return GiveBytes(handle, "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize",
                   mode, operations, x, bytes, true);
}

CUDNN_ENTRY cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnContext* handle, int mode, int operations, const cudnnTensorStruct* x,
    const cudnnTensorStruct*, const cudnnTensorStruct*, const cudnnTensorStruct*,
    const cudnnTensorStruct*, const cudnnTensorStruct*, const void*, size_t* bytes) {
  return GiveBytes(handle, "cudnnGetBatchNormalizationBackwardExWorkspaceSize", mode,
                   operations, x, bytes, true);
}

CUDNN_ENTRY cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnContext* handle, int mode, int operations, const void*,
    const cudnnTensorStruct* x, size_t* bytes) {
  return GiveBytes(handle, "cudnnGetBatchNormalizationTrainingExReserveSpaceSize", mode,
                   operations, x, bytes, false);
}

CUDNN_ENTRY cudnnBatchNormalizationForwardTraining(
    cudnnContext* handle, int mode, const void*, const void*,
    const cudnnTensorStruct* x, const void*, const cudnnTensorStruct*, void* y,
    const cudnnTensorStruct*, const void*, const void*, double, void* running_mean,
    void* running_variance, double, void* saved_mean, void* saved_variance) {
  return Launch(handle, "cudnnBatchNormalizationForwardTraining",
                BatchNormPass::kTraining, mode, x,
                {y, running_mean, running_variance, saved_mean, saved_variance});
}

CUDNN_ENTRY cudnnBatchNormalizationForwardTrainingEx(
    cudnnContext* handle, int mode, int operations, const void*, const void*,
    const cudnnTensorStruct* x, const void*, const cudnnTensorStruct*, const void*,
    const cudnnTensorStruct*, void* y, const cudnnTensorStruct*, const void*,
    const void*, double, void* running_mean, void* running_variance, double,
    void* saved_mean, void* saved_variance, void*, void* workspace, size_t, void*,
    size_t) {
  if (operations != kNoActivation)
    return RefuseActivation("cudnnBatchNormalizationForwardTrainingEx");
  return Launch(
      handle, "cudnnBatchNormalizationForwardTrainingEx", BatchNormPass::kTraining,
      mode, x,
      {y, running_mean, running_variance, saved_mean, saved_variance, workspace});
}

CUDNN_ENTRY cudnnBatchNormalizationForwardInference(
    cudnnContext* handle, int mode, const void*, const void*,
    const cudnnTensorStruct* x, const void*, const cudnnTensorStruct*, void* y,
    const cudnnTensorStruct*, const void*, const void*, const void*, const void*,
    double) {
  return Launch(handle, "cudnnBatchNormalizationForwardInference",
                BatchNormPass::kInference, mode, x, {y});
}

CUDNN_ENTRY cudnnBatchNormalizationBackward(
    cudnnContext* handle, int mode, const void*, const void*, const void*, const void*,
    const cudnnTensorStruct* x, const void*, const cudnnTensorStruct*, const void*,
    const cudnnTensorStruct*, void* dx, const cudnnTensorStruct*, const void*,
    void* d_scale, void* d_bias, double, const void*, const void*) {
  return Launch(handle, "cudnnBatchNormalizationBackward", BatchNormPass::kBackward,
                mode, x, {dx, d_scale, d_bias});
}

CUDNN_ENTRY cudnnBatchNormalizationBackwardEx(
    cudnnContext* handle, int mode, int operations, const void*, const void*,
    const void*, const void*, const cudnnTensorStruct* x, const void*,
    const cudnnTensorStruct*, const void*, const cudnnTensorStruct*, const void*,
    const cudnnTensorStruct*, void*, const cudnnTensorStruct*, void* dx,
    const cudnnTensorStruct*, const void*, const void*, void* d_scale, void* d_bias,
    double, const void*, const void*, void*, void* workspace, size_t, void*, size_t) {
  if (operations != kNoActivation)
    return RefuseActivation("cudnnBatchNormalizationBackwardEx");
  return Launch(handle, "cudnnBatchNormalizationBackwardEx", BatchNormPass::kBackward,
                mode, x, {dx, d_scale, d_bias, workspace});
}
