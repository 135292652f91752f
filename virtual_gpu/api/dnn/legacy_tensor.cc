// libcudnn's tensor descriptors of the calls that came before the graph API.

#include "virtual_gpu/api/dnn/legacy_tensor.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <new>

#include "base/guest/export.h"
#include "virtual_gpu/api/dnn/data_type.h"
#include "virtual_gpu/api/dnn/handle.h"

#define CUDNN_ENTRY extern "C" VRANK_EXPORT int

namespace {

using vrank::gpu::dnn::DataType;
using vrank::gpu::dnn::ElementBytes;
using vrank::gpu::dnn::Fail;
using vrank::gpu::dnn::IsSet;
using vrank::gpu::dnn::kBadParam;
using vrank::gpu::dnn::kHostAllocationFailed;
using vrank::gpu::dnn::kNotSupported;
using vrank::gpu::dnn::kSuccess;

constexpr int kMostDimensions = 8;  // CUDNN_DIM_MAX
constexpr int kNhwc = 1;            // cudnnTensorFormat_t

int Set(cudnnTensorStruct* tensor, DataType type, std::vector<int> dimensions,
        std::vector<int> strides, const char* call) {
  const auto positive = [](int each) { return each > 0; };
  if (tensor == nullptr || tensor->magic != cudnnTensorStruct::kValid ||
      !std::all_of(dimensions.begin(), dimensions.end(), positive))
    return Fail(kBadParam, std::string(call) + ": no descriptor, or no dimensions");
  tensor->type = type;
  tensor->dimensions = std::move(dimensions);
  tensor->strides = std::move(strides);
  return kSuccess;
}

// Of packed elements.
std::vector<int> PackedStrides(int format, const std::vector<int>& dimensions) {
  std::vector<int> strides(dimensions.size(), 1);
  int stride = 1;
  const auto next = [&](size_t i) {
    strides[i] = stride;
    stride *= dimensions[i];
  };
  if (format == kNhwc)
    next(1);
  for (size_t i = dimensions.size(); i-- > 0;)
    if (format != kNhwc || i != 1)
      next(i);
  return strides;
}

}  // namespace

CUDNN_ENTRY cudnnCreateTensorDescriptor(cudnnTensorStruct** tensor) {
  if (tensor == nullptr)
    return Fail(kBadParam, "cudnnCreateTensorDescriptor: no descriptor");
  *tensor = new (std::nothrow) cudnnTensorStruct;
  return *tensor == nullptr
             ? Fail(kHostAllocationFailed, "cudnnCreateTensorDescriptor: no memory")
             : kSuccess;
}

CUDNN_ENTRY cudnnDestroyTensorDescriptor(cudnnTensorStruct* tensor) {
  if (tensor == nullptr)
    return kSuccess;
  if (tensor->magic != cudnnTensorStruct::kValid)
    return Fail(kBadParam, "cudnnDestroyTensorDescriptor: no descriptor");
  tensor->magic = 0;
  delete tensor;
  return kSuccess;
}

CUDNN_ENTRY cudnnSetTensor4dDescriptor(cudnnTensorStruct* tensor, int format,
                                       DataType type, int n, int c, int h, int w) {
  std::vector<int> dimensions = {n, c, h, w};
  std::vector<int> strides = PackedStrides(format, dimensions);
  return Set(tensor, type, std::move(dimensions), std::move(strides),
             "cudnnSetTensor4dDescriptor");
}

CUDNN_ENTRY cudnnSetTensor4dDescriptorEx(cudnnTensorStruct* tensor, DataType type,
                                         int n, int c, int h, int w, int n_stride,
                                         int c_stride, int h_stride, int w_stride) {
  return Set(tensor, type, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride},
             "cudnnSetTensor4dDescriptorEx");
}

CUDNN_ENTRY cudnnSetTensorNdDescriptor(cudnnTensorStruct* tensor, DataType type,
                                       int count, const int* dimensions,
                                       const int* strides) {
  if (count < 1 || dimensions == nullptr || strides == nullptr)
    return Fail(kBadParam, "cudnnSetTensorNdDescriptor: no dimensions or no strides");
  if (count > kMostDimensions)
    return Fail(kNotSupported, "cudnnSetTensorNdDescriptor: more than 8 dimensions");
  return Set(tensor, type, {dimensions, dimensions + count}, {strides, strides + count},
             "cudnnSetTensorNdDescriptor");
}

CUDNN_ENTRY cudnnSetTensorNdDescriptorEx(cudnnTensorStruct* tensor, int format,
                                         DataType type, int count,
                                         const int* dimensions) {
  if (count < 2 || dimensions == nullptr)
    return Fail(kBadParam, "cudnnSetTensorNdDescriptorEx: no dimensions");
  if (count > kMostDimensions)
    return Fail(kNotSupported, "cudnnSetTensorNdDescriptorEx: more than 8 dimensions");
  std::vector<int> all(dimensions, dimensions + count);
  std::vector<int> strides = PackedStrides(format, all);
  return Set(tensor, type, std::move(all), std::move(strides),
             "cudnnSetTensorNdDescriptorEx");
}

CUDNN_ENTRY cudnnGetTensorNdDescriptor(const cudnnTensorStruct* tensor, int wanted,
                                       DataType* type, int* count, int* dimensions,
                                       int* strides) {
  if (!IsSet(tensor) || type == nullptr || count == nullptr || dimensions == nullptr ||
      strides == nullptr)
    return Fail(kBadParam, "cudnnGetTensorNdDescriptor: no descriptor, or no result");
  *type = tensor->type;
  *count = static_cast<int>(tensor->dimensions.size());
  for (int i = 0; i < std::min(wanted, *count); ++i) {
    dimensions[i] = tensor->dimensions[static_cast<size_t>(i)];
    strides[i] = tensor->strides[static_cast<size_t>(i)];
  }
  return kSuccess;
}

CUDNN_ENTRY cudnnGetTensor4dDescriptor(const cudnnTensorStruct* tensor, DataType* type,
                                       int* n, int* c, int* h, int* w, int* n_stride,
                                       int* c_stride, int* h_stride, int* w_stride) {
  if (!IsSet(tensor) || tensor->dimensions.size() != 4)
    return Fail(kBadParam, "cudnnGetTensor4dDescriptor: not of four dimensions");
  const std::array<int*, 4> sizes = {n, c, h, w};
  const std::array<int*, 4> strides = {n_stride, c_stride, h_stride, w_stride};
  if (type != nullptr)
    *type = tensor->type;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != nullptr)
      *sizes[i] = tensor->dimensions[i];
    if (strides[i] != nullptr)
      *strides[i] = tensor->strides[i];
  }
  return kSuccess;
}

// From the first element to the last.
CUDNN_ENTRY cudnnGetTensorSizeInBytes(const cudnnTensorStruct* tensor, size_t* bytes) {
  if (!IsSet(tensor) || bytes == nullptr)
    return Fail(kBadParam, "cudnnGetTensorSizeInBytes: no descriptor, or no result");
  size_t last = 0;
  for (size_t i = 0; i < tensor->dimensions.size(); ++i)
    last += static_cast<size_t>(tensor->dimensions[i] - 1) *
            static_cast<size_t>(tensor->strides[i]);
  *bytes = (last + 1) * ElementBytes(tensor->type);
  return kSuccess;
}
