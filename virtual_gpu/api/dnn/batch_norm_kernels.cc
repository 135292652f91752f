#include "virtual_gpu/api/dnn/batch_norm_kernels.h"

#include <algorithm>
#include <string>

#include "virtual_gpu/api/dnn/data_type.h"
#include "virtual_gpu/api/dnn/structure_kernel.h"

namespace vrank::gpu::dnn {
namespace {

// How wide the loops over a channel are: with its length.
const char* Width(uint64_t per_channel) {
  constexpr uint64_t kShort = 65536, kMiddle = 262144;
  return per_channel < kShort ? "Li32E" : per_channel < kMiddle ? "Li128E" : "Li512E";
}

// A channel that stays in a block's registers is read once.
bool IsReadOnce(BatchNormPass pass, uint64_t per_channel) {
  constexpr uint64_t kMostForward = 8192, kMostBackward = 4096;
  return per_channel <=
         (pass == BatchNormPass::kTraining ? kMostForward : kMostBackward);
}

std::string Name(BatchNormPass pass, const BatchNormShape& shape) {
  const std::string type = MangledType(shape.type);
  if (pass == BatchNormPass::kInference)
    return "_ZN5cudnn26bn_fw_inf_1C11_kernel_NCHWI" + type +
           "fLb1ELi1EEEvT0_T0_17cudnnTensorStructPKT_17cudnnTensorStructPT_";
  const bool forward = pass == BatchNormPass::kTraining;
  if (shape.channels_last)
    return std::string("_ZN5cudnn31batchnorm_") + (forward ? "fwtr" : "bwtr") +
           "_nhwc_semiPersistI" + type + "fLi512EEEvPKT_PT_T0_";
  if (IsReadOnce(pass, shape.per_channel))
    return std::string("_ZN5cudnn") +
           (forward ? "24bn_fw_tr_1C11_singleread" : "21bn_bw_1C11_singleread") + "I" +
           type + "Li512ELb1ELi1ELi2ELi0EEEvNS_" +
           (forward ? "18bn_fw_tr_1C11_args" : "15bn_bw_1C11_args") + "IT_EE";
  if (forward)
    return "_ZN5cudnn25bn_fw_tr_1C11_kernel_NCHWI" + type + "fi" +
           Width(shape.per_channel) + "Lb1ELi1ELb1EEEv17cudnnTensorStructPKT_";
  return "_ZN5cudnn21bn_bw_1C11_kernel_newI" + type + "f6float2" +
         Width(shape.per_channel) + "Lb1ELi1EEEvT0_T0_T0_T0_17cudnnTensorStructPKT_";
}

}  // namespace

Error LaunchBatchNorm(Gpu* gpu, void* stream, BatchNormPass pass,
                      const BatchNormShape& shape, std::span<void* const> outputs) {
  BatchNormArguments arguments{
      shape.per_channel * shape.channels, shape.channels, ElementBytes(shape.type), {}};
  std::copy_n(outputs.begin(),
              std::min(outputs.size(), BatchNormArguments::kMostOutputs),
              arguments.outputs);
  KernelShape kernel;
  kernel.name = Name(pass, shape);
  kernel.threads = 512;
  const uint32_t multiprocessors = gpu->channel()->settings().gpu.multiprocessors;
  // A block per channel; where channels lie together, blocks that stay.
  kernel.grid[0] = shape.channels_last ? multiprocessors : shape.channels;
  return LaunchWithStructure(gpu, stream, kernel, &arguments, sizeof arguments);
}

}  // namespace vrank::gpu::dnn
