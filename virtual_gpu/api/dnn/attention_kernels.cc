#include "virtual_gpu/api/dnn/attention_kernels.h"

#include <algorithm>
#include <bit>
#include <string>

#include "virtual_gpu/api/dnn/structure_kernel.h"

namespace vrank::gpu::dnn {
namespace {

// What every kernel gets (structure_kernel.h).
struct Arguments {
  static constexpr size_t kMostOutputs = 8;

  uint32_t heads, key_heads;  // of all sequences of the batch
  uint32_t queries, keys;
  uint32_t width;  // elements per head: the mean of keys' and values'
  uint32_t causal, bias, dropout;
  const void* outputs[kMostOutputs];
};
static_assert(offsetof(Arguments, outputs) == 32 && sizeof(Arguments) == 96);

uint32_t CeilDiv(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>((a + b - 1) / b);
}

class Launcher {
 public:
  Launcher(Gpu* gpu, void* stream, const Attention& attention,
           std::span<void* const> outputs)
      : gpu_(gpu),
        stream_(stream),
        attention_(attention),
        arguments_{attention.batch * attention.heads,
                   attention.batch * attention.key_heads,
                   attention.queries,
                   attention.keys,
                   (attention.width + attention.value_width) / 2,
                   attention.causal,
                   attention.bias,
                   attention.dropout,
                   {}} {
    std::copy_n(outputs.begin(), std::min(outputs.size(), Arguments::kMostOutputs),
                arguments_.outputs);
  }

  Error Launch(const std::string& name, uint32_t x, uint32_t y, uint32_t z,
               uint32_t threads, uint32_t shared) {
    return LaunchWithStructure(gpu_, stream_, {name, {x, y, z}, threads, shared},
                               &arguments_, sizeof arguments_);
  }

  // Blocks that take one tile after the other stay: one per multiprocessor. A counter
  // tells them which tile is next; it is cleared first.
  Error LaunchTiles(const std::string& name, uint32_t rows, uint32_t shared,
                    void* counter) {
    FillRequest clear;
    clear.to = counter;
    clear.element_bytes = 4;
    clear.elements = 1;
    clear.stream = stream_;
    clear.asynchronous = true;
    VRANK_RETURN_IF_FAILED(gpu_->Fill(clear));
    const auto& device = gpu_->channel()->settings().gpu;
    const uint64_t tiles = uint64_t{CeilDiv(attention_.queries, rows)} *
                           attention_.heads * attention_.batch;
    return Launch(
        name, static_cast<uint32_t>(std::min<uint64_t>(tiles, device.multiprocessors)),
        1, 1, 384, shared);
  }

 private:
  Gpu* const gpu_;
  void* const stream_;
  const Attention& attention_;
  Arguments arguments_;
};

// "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_...".
std::string Generated(uint32_t major, const char* pass, const char* tile,
                      uint32_t width) {
  return "cudnn_generated_fort_native_sdpa_sm" + std::to_string(major * 10) +
         "_flash_" + pass + "_" + tile + std::to_string(width) +
         (pass[0] == 'f' ? "_4x1x1" : "_1x4x1") + "_cga1x1x1_kernel0_0";
}

Error LaunchForward(Launcher& launcher, const Attention& attention, uint32_t major,
                    uint32_t width, void* workspace) {
  if (attention.queries > 1)
    return launcher.LaunchTiles(
        Generated(major, "fprop", "wgmma_f16_knob_7_64x128x", width), 128,
        width <= 64 ? 134144 : 232448, workspace);
  VRANK_RETURN_IF_FAILED(launcher.Launch(
      "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_35_16x128x" +
          std::to_string(width) + "_1x4x1_cga1x1x1_kernel0_0",
      CeilDiv(attention.keys, 128), attention.heads, attention.batch, 128, 45376));
  return launcher.Launch(
      "_ZN5cudnn6fusion21lean_reduction_kernelILb0ELb0ELb0EEEvPvPfS3_S3_S3_PKfS3_S3_S3_"
      "S3_S3_jjjjjjjjjjjjjjjjjjjjb",
      1, attention.heads, attention.batch, 256, 4160);
}

Error LaunchBackward(Launcher& launcher, const Attention& attention, uint32_t major,
                     uint32_t width, void* workspace) {
  const std::string type = attention.bfloat16 ? "Lb1E" : "Lb0E";
  const uint32_t padded = std::bit_ceil(attention.width);
  const bool special = attention.width == width;  // 64, 128 or 256
  constexpr const char* kDotParameters =
      "vPKvS3_PvS4_jjjjjjjjjjjjjjjjjfS3_S3_S3_S3_S3_bS3_S4_S3_iiiiiiiii";
  VRANK_RETURN_IF_FAILED(
      launcher.Launch("_ZN5cudnn6fusion" +
                          (special ? "28compute_dot_do_o_specializedI" + type + "Li" +
                                         std::to_string(width) + "EEE"
                                   : "16compute_dot_do_oI" + type + "EE") +
                          kDotParameters,
                      CeilDiv(attention.queries, std::max(1u, 1024 / padded)),
                      attention.batch, attention.heads, 128, 0));
  const uint32_t shared = width <= 64 ? 152576 : width <= 128 ? 216064 : 232448;
  VRANK_RETURN_IF_FAILED(
      launcher.LaunchTiles(Generated(major, "bprop", "wgmma_f16_knob_26_64x64x", width),
                           width <= 128 ? 128 : 64, shared, workspace));
  VRANK_RETURN_IF_FAILED(
      launcher.Launch("_ZN5cudnn6fusion20convert_dq_to_16bitsI" + type +
                          "EEvPKvPvjjjjjjjjjjPKfS6_S6_PfS3_S4_S4_bb",
                      CeilDiv(attention.queries, std::max(1u, 2048 / attention.width)),
                      attention.batch, attention.heads, 128, 0));
  // Keys and values of one head that several heads of queries share: dK, dV.
  for (int i = 0; i < 2 && attention.key_heads < attention.heads; ++i) {
    VRANK_RETURN_IF_FAILED(
        launcher.Launch("_ZN5cudnn6fusion16fmha_reduce_headI" + type +
                            "EEvPKvPvjjjjjjjjjjjPKfS6_S6_PfS4_bS4_b",
                        CeilDiv(attention.keys, std::max(1u, 1024 / padded)),
                        attention.batch, attention.key_heads, 128, 0));
  }
  return Error::kSuccess;
}

}  // namespace

Error LaunchAttention(Gpu* gpu, void* stream, const Attention& attention,
                      std::span<void* const> outputs, void* workspace) {
  const uint32_t major = gpu->channel()->settings().gpu.compute_major;
  const uint32_t width = attention.width <= 64    ? 64
                         : attention.width <= 128 ? 128
                                                  : 256;
  Launcher launcher(gpu, stream, attention, outputs);
  return attention.backward
             ? LaunchBackward(launcher, attention, major, width, workspace)
             : LaunchForward(launcher, attention, major, width, workspace);
}

}  // namespace vrank::gpu::dnn
