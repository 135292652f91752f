#include "virtual_gpu/api/dnn/convolution_kernels.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "virtual_gpu/api/dnn/data_type.h"

namespace vrank::gpu::dnn {
namespace {

uint64_t CeilDiv(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}
uint64_t RoundUp(uint64_t bytes, uint64_t to) {
  return CeilDiv(bytes, to) * to;
}
uint32_t Narrow(uint64_t number) {
  return static_cast<uint32_t>(std::min<uint64_t>(number, ~uint32_t{0}));
}

// m x n sums over k, for each group.
struct Product {
  uint64_t m, n, k, groups;
};

Product ProductOf(const ConvolutionShape& shape) {
  const uint64_t channels = shape.channels / shape.groups;
  const uint64_t filters = shape.filters / shape.groups;
  const uint64_t taps = shape.Taps();
  switch (shape.pass) {
    case Pass::kForward:
      return {shape.images * shape.OutputPixels(), filters, channels * taps,
              shape.groups};
    case Pass::kBackwardData:
      // With a stride, a pixel meets some of the taps only.
      return {shape.images * shape.InputPixels(), channels,
              CeilDiv(filters * taps, shape.Stride()), shape.groups};
    case Pass::kBackwardFilter:
      break;
  }
  return {filters, channels * taps, shape.images * shape.OutputPixels(), shape.groups};
}

// A block's share of a product, and the end of its kernel's name on compute
// capabilities 8 and 9.
struct Tile {
  uint32_t m, n, threads;
  double efficiency;  // by which tiles compare; the cost file has what they reach
  const char* name8_float;
  const char* name8_half;
  const char* name9_float;
  const char* name9_half;
};
// Forward and back to the data: m are pixels.
constexpr Tile kPixelTiles[] = {
    {128, 128, 128, 0.8, "128x128x16_stage4_warpsize2x2x1",
     "128x128x32_stage4_warpsize2x2x1", "128x128x32_warpgroupsize1x1x1",
     "128x128x64_warpgroupsize1x1x1"},
    {64, 128, 128, 0.7, "64x128x32_stage5_warpsize2x2x1",
     "64x128x64_stage5_warpsize2x2x1", "64x128x32_warpgroupsize1x1x1",
     "64x128x64_warpgroupsize1x1x1"},
    {256, 64, 256, 0.5, "256x64x32_stage3_warpsize4x2x1",
     "256x64x32_stage3_warpsize4x1x1", "256x64x32_warpgroupsize2x1x1",
     "256x64x64_warpgroupsize2x1x1"},
};
// Back to the filter: m are filters.
constexpr Tile kFilterTiles[] = {
    {128, 128, 128, 0.55, "128x128x16_stage4_warpsize2x2x1",
     "128x128x32_stage4_warpsize2x2x1", "128x128x32_warpgroupsize1x1x1",
     "128x128x64_warpgroupsize1x1x1"},
    {64, 64, 128, 0.35, "64x64x64_stage4_warpsize2x2x1",
     "64x64x64_stage4_warpsize2x2x1", "64x64x32_warpgroupsize1x1x1",
     "64x64x64_warpgroupsize1x1x1"},
};

const char* PassName(Pass pass) {
  return pass == Pass::kForward        ? "fprop"
         : pass == Pass::kBackwardData ? "dgrad"
                                       : "wgrad";
}

class Chooser {
 public:
  Chooser(const ConvolutionShape& shape, const protocol::GpuProperties& gpu)
      : shape_(shape),
        gpu_(gpu),
        product_(ProductOf(shape)),
        bytes_(ElementBytes(shape.type)),
        x_(uint64_t{shape.images} * shape.channels * shape.InputPixels()),
        y_(uint64_t{shape.images} * shape.filters * shape.OutputPixels()),
        w_(uint64_t{shape.filters} * (shape.channels / shape.groups) * shape.Taps()) {}

  ConvolutionKernels OnTensorCores() {
    if (IsProductInPlace())
      AddProductInPlace();
    else
      AddConvertedProduct();
    return std::move(made_);
  }

  ConvolutionKernels OnVectorUnits() {
    if (IsDepthwiseInNhwc())
      AddDepthwiseInNhwc();
    else if (shape_.groups > 1)
      AddGroupedDirect();
    else if (IsWinograd())
      AddWinograd();
    else
      AddVectorProduct();
    return std::move(made_);
  }

 private:
  bool IsFloat() const { return shape_.type == DataType::kFloat; }
  uint32_t Major() const { return gpu_.compute_major; }

  // Elements that a pass reads, and those that it makes.
  uint64_t ReadElements() const {
    return shape_.pass == Pass::kForward        ? x_ + w_
           : shape_.pass == Pass::kBackwardData ? w_ + y_
                                                : x_ + y_;
  }
  uint64_t WrittenElements() const {
    return shape_.pass == Pass::kForward        ? y_
           : shape_.pass == Pass::kBackwardData ? x_
                                                : w_;
  }

  ConvolutionKernels::Step& Add(std::string name, uint64_t x, uint64_t y, uint64_t z,
                                uint32_t threads, uint64_t read, uint64_t written) {
    ConvolutionKernels::Step& step = made_.steps.emplace_back();
    // Grids are narrower in y and z.
    constexpr uint64_t kMostNarrow = 65535;
    step.shape = {
        std::move(name),
        {Narrow(x), Narrow(std::min(y, kMostNarrow)), Narrow(std::min(z, kMostNarrow))},
        threads,
        0};
    step.numbers.pixels = shape_.images * shape_.OutputPixels();
    step.numbers.filters = shape_.filters;
    step.numbers.products = Narrow(shape_.channels / shape_.groups * shape_.Taps());
    step.numbers.parts = 1;
    step.numbers.read_bytes = read;
    step.numbers.written_bytes = written;
    return step;
  }
  ConvolutionKernels::Step& AddIntoWorkspace(std::string name, uint64_t x, uint64_t y,
                                             uint64_t z, uint32_t threads,
                                             uint64_t read, uint64_t written) {
    ConvolutionKernels::Step& step =
        Add(std::move(name), x, y, z, threads, read, written);
    step.into_workspace = true;
    Reserve(written);
    return step;
  }
  void Reserve(uint64_t bytes) {
    constexpr uint64_t kAlignment = 256;
    made_.workspace_bytes += RoundUp(bytes, kAlignment);
  }

  // Kernels that change the layout of `outer` tensors of `channels` over `pixels`, and
  // fill channels up.
  std::string ConverterName(const char* kernel, const char* parameters,
                            bool to_nhwc) const {
    const std::string type = MangledType(shape_.type);
    const std::string again = type.size() == 1 ? type : "S2_";
    return "_ZN5cudnn19engines_precompiled16" + std::string(kernel) + "I" + type +
           again + "f" + (to_nhwc ? "Lb0ELb1E" : "Lb1ELb0E") +
           "L21cudnnKernelDataType_t" + (to_nhwc && IsFloat() ? "2" : "0") +
           "EEEvNS0_" + parameters + "IT1_EEPKT_PT0_";
  }
  // Returns the elements of the converted tensor.
  uint64_t AddToNhwc(uint64_t outer, uint64_t channels, uint64_t pixels) {
    const uint64_t padded = RoundUp(channels, Vector());
    AddIntoWorkspace(ConverterName("nchwToNhwcKernel", "18nchw2nhwc_params_t", true),
                     CeilDiv(pixels, 32), CeilDiv(channels, 32), outer, 256,
                     outer * channels * pixels * bytes_,
                     outer * padded * pixels * bytes_);
    return outer * padded * pixels;
  }
  void AddToNchw(uint64_t outer, uint64_t channels, uint64_t pixels) {
    const uint64_t bytes = outer * channels * pixels * bytes_;
    Reserve(bytes);  // from where it is converted
    Add(ConverterName("nhwcToNchwKernel", "18nhwc2nchw_params_t", false),
        CeilDiv(pixels, 32), CeilDiv(channels, 32), outer, 256, bytes, bytes);
  }
  uint64_t AddPadding(uint64_t outer, uint64_t channels, uint64_t pixels) {
    const std::string type = MangledType(shape_.type);
    const std::string again = type.size() == 1 ? type : "S2_";
    const uint64_t padded = RoundUp(channels, Vector());
    AddIntoWorkspace(
        "_ZN5cudnn19engines_precompiled20nhwcAddPaddingKernelI" + type + again +
            "fLb1EL21cudnnKernelDataType_t0EEEv17cudnnTensorStruct"
            "PKT_17cudnnTensorStructPT0_T1_T1_",
        CeilDiv(outer * padded * pixels, 4096), 1, 1, 256,
        outer * channels * pixels * bytes_, outer * padded * pixels * bytes_);
    return outer * padded * pixels;
  }
  // Elements of a vector of 16 bytes.
  uint32_t Vector() const { return 16 / bytes_; }

  // An operand as a kernel in NHWC reads it; returns its elements.
  uint64_t AddOperand(uint64_t outer, uint64_t channels, uint64_t pixels) {
    if (!shape_.channels_last && (pixels > 1 || channels % Vector() != 0))
      return AddToNhwc(outer, channels, pixels);
    if (channels % Vector() != 0)
      return AddPadding(outer, channels, pixels);
    return outer * channels * pixels;
  }
  // A filter of one tap lies as NHWC has it, and is converted all the same.
  uint64_t AddFilter() {
    const uint64_t channels = shape_.channels / shape_.groups;
    if (!shape_.channels_last)
      return AddToNhwc(shape_.filters, channels, shape_.Taps());
    return AddOperand(shape_.filters, channels, shape_.Taps());
  }
  uint64_t AddX() {
    return AddOperand(shape_.images, shape_.channels, shape_.InputPixels());
  }
  uint64_t AddY() {
    return AddOperand(shape_.images, shape_.filters, shape_.OutputPixels());
  }

  // Of images in NCHW a filter of one tap is a matrix product per image, where an
  // image fills half of a tile.
  bool IsProductInPlace() const {
    return IsFloat() && !shape_.channels_last && shape_.groups == 1 &&
           shape_.Taps() == 1 && shape_.Stride() == 1 &&
           shape_.InputPixels() == shape_.OutputPixels() &&
           shape_.OutputPixels() >= kPixelsPerTile / 2 &&
           shape_.channels % Vector() == 0 && shape_.filters % Vector() == 0;
  }
  static constexpr uint64_t kPixelsPerTile = 256;

  void AddProductInPlace() {
    const bool to_filter = shape_.pass == Pass::kBackwardFilter;
    const char* const operands = shape_.pass == Pass::kForward        ? "nn"
                                 : shape_.pass == Pass::kBackwardData ? "nt"
                                                                      : "tn";
    const uint64_t m = to_filter ? shape_.filters : shape_.InputPixels();
    const uint64_t n = shape_.pass == Pass::kForward ? shape_.filters : shape_.channels;
    const uint64_t k = to_filter                       ? shape_.OutputPixels()
                       : shape_.pass == Pass::kForward ? shape_.channels
                                                       : shape_.filters;
    const bool narrow = to_filter && m < kPixelsPerTile;
    const uint32_t tile = narrow ? 64 : 256;
    std::string name = std::string("cutlass_80_tensorop_s1688gemm_") +
                       (narrow ? "64x64_16x6_" : "256x64_16x4_") + operands + "_align4";
    name =
        "_ZN7cutlass7Kernel2I" + std::to_string(name.size()) + name + "EEvNT_6ParamsE";
    const uint64_t rows = CeilDiv(m, tile), columns = CeilDiv(n, 64);
    const uint64_t partial = to_filter ? uint64_t{shape_.images} * w_ * 4 : 0;
    ConvolutionKernels::Step& step =
        Add(std::move(name), columns * rows, 1, shape_.images, 128,
            ReadElements() * bytes_ + shape_.fused_bytes,
            to_filter ? partial : WrittenElements() * bytes_);
    step.numbers.tile = tile * 64;
    step.numbers.depth = Narrow(k);
    step.numbers.tiles = Narrow(rows * columns * shape_.images);
    if (!to_filter)
      return;
    step.into_workspace = true;
    Reserve(partial);
    Add("_ZN5cudnn3cnn24reduce_wgrad_nchw_helperIffEEvPvPKvfii", CeilDiv(w_, 128), 1, 1,
        128, partial, w_ * bytes_);
  }

  void AddConvertedProduct() {
    uint64_t read = 0;
    // In the order of a profile: the filter comes first on the way back.
    switch (shape_.pass) {
      case Pass::kForward:
        read = AddX();
        read += AddFilter();
        break;
      case Pass::kBackwardData:
        read = AddFilter();
        read += AddY();
        break;
      case Pass::kBackwardFilter:
        read = AddX();
        read += AddY();
        break;
    }
    AddXmma(read);
    if (shape_.channels_last || WritesNchw())
      return;
    const uint64_t channels = shape_.channels / shape_.groups;
    switch (shape_.pass) {
      case Pass::kForward:
        return AddBack(shape_.images, shape_.filters, shape_.OutputPixels());
      case Pass::kBackwardData:
        return AddBack(shape_.images, shape_.channels, shape_.InputPixels());
      case Pass::kBackwardFilter:
        return AddBack(shape_.filters, channels, shape_.Taps());
    }
  }
  void AddBack(uint64_t outer, uint64_t channels, uint64_t pixels) {
    made_.steps.back().into_workspace = true;
    AddToNchw(outer, channels, pixels);
  }

  // Forward kernels of compute capability 8 that convert TF32's results themselves,
  // taken for large images; a gradient of filters of one tap lies in both layouts.
  bool WritesNchw() const {
    constexpr uint64_t kLargeImage = 512;
    if (shape_.pass == Pass::kBackwardFilter)
      return shape_.Taps() == 1;
    return shape_.pass == Pass::kForward && IsFloat() && Major() == 8 &&
           shape_.OutputPixels() >= kLargeImage;
  }

  // Groups of less than a tile's width are side by side in one.
  static constexpr uint64_t kGroupedTile = 64;

  void AddXmma(uint64_t read) {
    Product product = product_;
    if (product.groups > 1)
      product = Gathered(product);
    const Tile& tile = BestTile(product);
    const uint64_t rows = CeilDiv(product.m, tile.m);
    const uint64_t columns = CeilDiv(product.n, tile.n);
    const uint64_t tiles = rows * columns * product.groups;
    const uint64_t parts =
        shape_.pass == Pass::kBackwardFilter ? PartsOf(product.k, tiles) : 1;
    const uint64_t written = WrittenElements() * bytes_;
    ConvolutionKernels::Step& step =
        Add(XmmaName(tile, false), columns, rows, parts * product.groups,
            ThreadsOf(tile), read * bytes_ + shape_.fused_bytes,
            parts > 1 ? parts * w_ * sizeof(float) : written);
    step.numbers.tile = tile.m * tile.n;
    step.numbers.depth = Narrow(CeilDiv(product.k, parts));
    step.numbers.tiles = Narrow(tiles * parts);
    step.numbers.parts = Narrow(parts);
    if (parts == 1)
      return;
    step.into_workspace = true;
    Reserve(parts * w_ * sizeof(float));
    constexpr uint64_t kBlocksPerTile = 4;
    Add(XmmaName(tile, true), columns, rows, kBlocksPerTile * product.groups,
        tile.threads, parts * w_ * sizeof(float), written);
  }

  // Hopper's kernels have a group of 128 threads that loads, beside one for 128 rows.
  uint32_t ThreadsOf(const Tile& tile) const {
    constexpr uint32_t kGroup = 128;
    return Major() >= 9 && shape_.pass != Pass::kBackwardFilter
               ? kGroup + kGroup * std::max(1u, tile.m / kGroup)
               : tile.threads;
  }

  // Where a group has fewer columns than a tile, so many groups make one product in
  // which the blocks off the diagonal are zero.
  Product Gathered(const Product& product) const {
    const uint64_t columns = shape_.pass == Pass::kBackwardFilter
                                 ? shape_.filters / shape_.groups
                                 : product.n;
    const uint64_t together =
        std::clamp<uint64_t>(kGroupedTile / columns, 1, product.groups);
    const uint64_t groups = CeilDiv(product.groups, together);
    if (shape_.pass == Pass::kBackwardFilter)
      return {product.m * together, product.n * together, product.k, groups};
    return {product.m, product.n * together, product.k * together, groups};
  }

  const Tile& BestTile(const Product& product) const {
    const auto time = [&](const Tile& tile) {
      const uint64_t tiles =
          CeilDiv(product.m, tile.m) * CeilDiv(product.n, tile.n) * product.groups;
      // Sums back to the filter are cut until all multiprocessors have a part.
      const double waves =
          shape_.pass == Pass::kBackwardFilter
              ? static_cast<double>(tiles) / gpu_.multiprocessors
              : static_cast<double>(CeilDiv(tiles, gpu_.multiprocessors));
      return waves * tile.m * tile.n / tile.efficiency;
    };
    const auto best = [&](const auto& tiles) -> const Tile& {
      return *std::min_element(
          std::begin(tiles), std::end(tiles),
          [&](const Tile& a, const Tile& b) { return time(a) < time(b); });
    };
    return shape_.pass == Pass::kBackwardFilter ? best(kFilterTiles)
                                                : best(kPixelTiles);
  }

  // So many that multiprocessors are busy for the shortest time, each with sums of a
  // good length.
  uint64_t PartsOf(uint64_t k, uint64_t tiles) const {
    constexpr uint64_t kShortest = 256, kMost = 64;
    constexpr uint64_t kBeginAndEnd = 200;  // of a tile, in sums that it could add
    const auto time = [&](uint64_t parts) {
      return CeilDiv(tiles * parts, gpu_.multiprocessors) *
             (CeilDiv(k, parts) + kBeginAndEnd);
    };
    uint64_t best = 1;
    for (uint64_t parts = 2; parts <= std::min(kMost, k / kShortest); ++parts)
      best = time(parts) < time(best) ? parts : best;
    return best;
  }

  std::string XmmaName(const Tile& tile, bool adds_parts) const {
    const bool to_filter = shape_.pass == Pass::kBackwardFilter;
    const bool hopper = Major() >= 9 && !to_filter;
    const bool indexed = !hopper && (to_filter || shape_.Stride() > 1 ||
                                     shape_.Dilation() > 1 || WritesNchw());
    const bool in_volume = shape_.input[0] > 1 || shape_.filter[0] > 1;
    const std::string space = in_volume ? "ndhwc" : "nhwc";
    const std::string groups =
        shape_.groups == 1 ? "1" : std::to_string(GroupsPerTile());
    std::string types = shape_.type == DataType::kHalf       ? "f16f16_f16f32_f32"
                        : shape_.type == DataType::kBfloat16 ? "bf16bf16_bf16f32_f32"
                        : hopper                             ? "f32f32_tf32f32_f32"
                                                             : "tf32f32_tf32f32_f32";
    const bool nchw = !to_filter && !shape_.channels_last && WritesNchw();
    std::string name = "sm" + std::to_string(hopper ? Major() * 10 : 80) + "_xmma_" +
                       PassName(shape_.pass) + "_implicit_gemm_" +
                       (indexed ? "indexed_" : "") + types + "_" + space + "krsc_" +
                       (nchw ? "nchw" : space) + "_tilesize";
    if (hopper)
      return name + (IsFloat() ? tile.name9_float : tile.name9_half) + "_g" + groups +
             "_execute_segment_k_off_kernel__5x_cudnn";
    return name + (IsFloat() ? tile.name8_float : tile.name8_half) + "_g" + groups +
           (IsFloat() ? "_tensor16x8x8_" : "_tensor16x8x16_") +
           (adds_parts ? "execute_split_k_kernel" : "execute_kernel") + "__5x_cudnn";
  }
  uint64_t GroupsPerTile() const {
    return std::clamp<uint64_t>(kGroupedTile / (shape_.filters / shape_.groups), 1,
                                shape_.groups);
  }

  // One channel per filter in NHWC, of half precision.
  bool IsDepthwiseInNhwc() const {
    return shape_.channels_last && !IsFloat() && shape_.type != DataType::kDouble &&
           shape_.groups == shape_.channels && shape_.filters == shape_.channels &&
           shape_.input[0] == 1 && shape_.filter[0] == 1;
  }
  void AddDepthwiseInNhwc() {
    const std::string type = MangledType(shape_.type);
    const std::string size = "Li" + std::to_string(shape_.filter[1]) + "E";
    const std::string stride = "Li" + std::to_string(shape_.stride[1]) + "E";
    std::string divisors;
    constexpr uint64_t kPerThread = 8;
    const uint64_t blocks = CeilDiv(WrittenElements(), 256 * kPerThread);
    const uint64_t read = ReadElements() * bytes_ + shape_.fused_bytes;
    switch (shape_.pass) {
      case Pass::kForward:
        Add("_Z36conv2d_c1_k1_nhwc_kernel_specializedI" + type + "S0_S0_ff" + size +
                stride +
                "Li8ELi3ELb1EEvf17cudnnTensorStructPKT_17cudnnFilterStructPKT0_"
                "22cudnnConvolutionStructfS1_PT1_14C1K1NhwcParamsi",
            blocks, 1, 1, 256, read, WrittenElements() * bytes_);
        return;
      case Pass::kBackwardData:
        for (int i = 0; i < 4; ++i)
          divisors += "N5cudnn15reduced_divisorE";
        Add("_Z44dgrad2d_c1_k1_nhwc_kernel_specialized_windowI" + type + "ff" + size +
                stride + "Lb1EEvT0_PKT_PKT_T0_PT_" + divisors + "iiiiiiiiiiiiiiiii",
            blocks, 1, 1, 256, read, WrittenElements() * bytes_);
        return;
      case Pass::kBackwardFilter:
        break;
    }
    const std::string shape = "I" + type + "fLi8E" + size + size;
    // Each block adds the images up that it has seen; one more kernel adds the blocks.
    const uint64_t sums = uint64_t{gpu_.multiprocessors} * 2;
    AddIntoWorkspace(
        "_ZN5cudnn3cnn25wgrad2d_c1_k1_nhwc_kernel" + shape +
            "Li1ELi1ELi1ELi1ELb1EEEv17cudnnTensorStructPKT_"
            "17cudnnTensorStructPKT_22cudnnConvolutionStruct17cudnnFilterStructPT0_",
        sums, 1, 1, 256, read, sums * w_ * sizeof(float));
    Add("_ZN5cudnn3cnn35wgrad2d_c1_k1_nhwc_reduction_kernel" + shape +
            "EEv17cudnnTensorStruct22cudnnConvolutionStructPT_PKT0_T0_T0_",
        CeilDiv(w_, 256), 1, 1, 256, sums * w_ * sizeof(float), w_ * bytes_);
  }

  // Filters of few channels each, in whatever layout.
  void AddGroupedDirect() {
    const std::string type = MangledType(shape_.type);
    const char* const kernel =
        shape_.pass == Pass::kForward        ? "28conv2d_grouped_direct_kernel"
        : shape_.pass == Pass::kBackwardData ? "29dgrad2d_grouped_direct_kernel"
                                             : "29wgrad2d_grouped_direct_kernel";
    Add("_ZN5cudnn3cnn" + std::string(kernel) + "ILb0ELb1ELb0ELb0ELb0ELb0Ei" + type +
            "fEEv17cudnnTensorStructPKT6_17cudnnFilterStructPKT6_",
        CeilDiv(std::max(x_, y_), 256), 1, 1, 256,
        ReadElements() * bytes_ + shape_.fused_bytes, WrittenElements() * bytes_);
  }

  // F(2x2, 3x3): 16 products for 36.
  bool IsWinograd() const {
    constexpr uint32_t kFewest = 32;
    return IsFloat() && shape_.pass != Pass::kBackwardFilter && !shape_.channels_last &&
           shape_.filter == std::array<uint32_t, 3>{1, 3, 3} && shape_.Stride() == 1 &&
           shape_.Dilation() == 1 && shape_.channels >= kFewest &&
           shape_.filters >= kFewest;
  }
  void AddWinograd() {
    made_.winograd = true;
    constexpr uint64_t kPixelsPerTileAndSide = 2;
    const uint64_t pixels =
        shape_.pass == Pass::kForward ? shape_.OutputPixels() : shape_.InputPixels();
    const uint64_t results = WrittenElements() / (shape_.images * pixels);
    const uint64_t tiles = CeilDiv(shape_.images * pixels,
                                   kPixelsPerTileAndSide * kPixelsPerTileAndSide * 128);
    Add(VectorName("winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"), tiles,
        CeilDiv(results, 128), 1, 256, ReadElements() * bytes_ + shape_.fused_bytes,
        WrittenElements() * bytes_);
  }

  std::string VectorName(const char* rest) const {
    return std::string("_5x_cudnn_ampere_") +
           (shape_.type == DataType::kDouble ? "dcudnn_" : "scudnn_") + rest;
  }
  void AddVectorProduct() {
    constexpr uint32_t kRows = 128, kColumns = 64;
    const uint64_t rows = CeilDiv(product_.m, kRows);
    const uint64_t columns = CeilDiv(product_.n, kColumns);
    const bool to_filter = shape_.pass == Pass::kBackwardFilter;
    const uint64_t parts = to_filter ? PartsOf(product_.k, rows * columns) : 1;
    // Where the places of a filter's taps are, for all pixels of an image.
    const uint64_t places = shape_.OutputPixels() * sizeof(uint32_t);
    AddIntoWorkspace(
        "_ZN14cask__5x_cudnn20computeOffsetsKernelILb0ELb0EEEvNS_"
        "20ComputeOffsetsParamsE",
        CeilDiv(shape_.OutputPixels(), 256) + 1, 1, 1, 256, 0, places);
    ConvolutionKernels::Step& step =
        Add(VectorName(shape_.pass == Pass::kForward ? "128x64_relu_xregs_large_nn_v1"
                       : to_filter ? "128x64_stridedB_splitK_xregs_large_nn_v1"
                                   : "128x64_stridedB_xregs_large_nn_v1"),
            rows * columns, 1, parts, 128, ReadElements() * bytes_ + shape_.fused_bytes,
            WrittenElements() * bytes_);
    step.numbers.tile = kRows * kColumns;
    step.numbers.depth = Narrow(CeilDiv(product_.k, parts));
    step.numbers.tiles = Narrow(rows * columns * parts);
    step.numbers.parts = Narrow(parts);
  }

  const ConvolutionShape& shape_;
  const protocol::GpuProperties& gpu_;
  const Product product_;
  const uint32_t bytes_;      // of an element
  const uint64_t x_, y_, w_;  // elements
  ConvolutionKernels made_;
};

}  // namespace

bool CanUseTensorCores(const ConvolutionShape& shape,
                       const protocol::GpuProperties& gpu) {
  if (shape.type == DataType::kDouble || gpu.compute_major < 8)
    return false;
  const uint32_t channels = shape.channels / shape.groups;
  const uint32_t filters = shape.filters / shape.groups;
  // TF32 is not taken for images of few channels on the way forward.
  if (shape.groups == 1)
    return shape.type != DataType::kFloat || shape.pass != Pass::kForward ||
           channels % 4 == 0;
  const uint32_t vector = 16 / ElementBytes(shape.type);
  return channels % vector == 0 && filters % vector == 0;
}

ConvolutionKernels ChooseKernels(const ConvolutionShape& shape, bool tensor_cores,
                                 const protocol::GpuProperties& gpu) {
  Chooser chooser(shape, gpu);
  return tensor_cores ? chooser.OnTensorCores() : chooser.OnVectorUnits();
}

Error LaunchConvolution(Gpu* gpu, void* stream, const ConvolutionKernels& kernels,
                        std::span<void* const> outputs, void* workspace) {
  for (const ConvolutionKernels::Step& step : kernels.steps) {
    ConvolutionArguments numbers = step.numbers;
    numbers.output = step.into_workspace ? workspace
                     : outputs.empty()   ? nullptr
                                         : outputs.front();
    VRANK_RETURN_IF_FAILED(
        LaunchWithStructure(gpu, stream, step.shape, &numbers, sizeof numbers));
  }
  return Error::kSuccess;
}

}  // namespace vrank::gpu::dnn
