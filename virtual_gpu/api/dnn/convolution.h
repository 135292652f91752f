// Convolutions of one, two and three dimensions, as cuDNN's frontend writes them: one
// operation (forward, back to the data, back to the filter), or a forward one with
// pointwise operations behind it (a bias, another tensor, an activation).
//
// Thread rule: pure functions of descriptors that no thread changes meanwhile.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_CONVOLUTION_H_
#define VRANK_VIRTUAL_GPU_API_DNN_CONVOLUTION_H_

#include <array>
#include <cstdint>
#include <string>

#include "virtual_gpu/api/dnn/computation.h"
#include "virtual_gpu/api/dnn/descriptor.h"

namespace vrank::gpu::dnn {

enum class Pass : uint8_t { kForward, kBackwardData, kBackwardFilter };

struct ConvolutionShape {
  Pass pass = Pass::kForward;
  DataType type = DataType::kFloat;
  bool channels_last = false;  // as images lie in memory, and the filter
  uint32_t images = 0;
  uint32_t channels = 0, filters = 0;  // of all groups
  uint32_t groups = 1;
  // Depth, height, width; 1 where there are fewer.
  std::array<uint32_t, 3> input{}, output{}, filter{}, stride{}, dilation{};
  uint64_t fused_bytes = 0;  // what pointwise operations read beside its result

  uint64_t InputPixels() const { return Product(input); }  // of an image
  uint64_t OutputPixels() const { return Product(output); }
  uint64_t Taps() const { return Product(filter); }
  uint64_t Stride() const { return Product(stride); }
  uint64_t Dilation() const { return Product(dilation); }

 private:
  static uint64_t Product(const std::array<uint32_t, 3>& of) {
    return uint64_t{of[0]} * of[1] * of[2];
  }
};

bool HasConvolution(const Descriptor& graph);

// One engine on tensor cores where the type allows it, and one without for float32 and
// float64. Empty where the graph is another; `why` then names what it is.
Computations ReadConvolution(const Descriptor& graph,
                             const protocol::GpuProperties& gpu, std::string* why);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_CONVOLUTION_H_
