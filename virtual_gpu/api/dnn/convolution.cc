#include "virtual_gpu/api/dnn/convolution.h"

#include <algorithm>
#include <optional>

#include "virtual_gpu/api/dnn/convolution_kernels.h"
#include "virtual_gpu/api/dnn/data_type.h"
#include "virtual_gpu/api/dnn/tensor_facts.h"

namespace vrank::gpu::dnn {
namespace {

// Which attributes of an operation are its tensors.
struct Names {
  Pass pass;
  AttributeName x, w, y, convolution;
};

std::optional<Names> NamesOf(DescriptorType operation) {
  using Name = AttributeName;
  switch (operation) {
    case DescriptorType::kOperationConvolutionForward:
      return Names{Pass::kForward, Name::kForwardX, Name::kForwardW, Name::kForwardY,
                   Name::kForwardConvolution};
    case DescriptorType::kOperationConvolutionBackwardData:
      return Names{Pass::kBackwardData, Name::kBackwardDataDx, Name::kBackwardDataW,
                   Name::kBackwardDataDy, Name::kBackwardDataConvolution};
    case DescriptorType::kOperationConvolutionBackwardFilter:
      return Names{Pass::kBackwardFilter, Name::kBackwardFilterX,
                   Name::kBackwardFilterDw, Name::kBackwardFilterDy,
                   Name::kBackwardFilterConvolution};
    default:
      return std::nullopt;
  }
}

// Batch or filters, channels, and one to three dimensions in space.
constexpr size_t kFewest = 3, kMost = 5;

bool ArePlausible(const std::vector<int64_t>& dimensions) {
  constexpr int64_t kMostEach = int64_t{1} << 31;
  return std::all_of(dimensions.begin(), dimensions.end(),
                     [](int64_t each) { return each > 0 && each < kMostEach; });
}

// The last numbers, one per dimension in space, behind ones.
std::array<uint32_t, 3> InSpace(const std::vector<int64_t>& numbers,
                                size_t dimensions) {
  std::array<uint32_t, 3> last = {1, 1, 1};
  for (size_t i = 0; i < dimensions && i < numbers.size(); ++i)
    last[last.size() - 1 - i] = static_cast<uint32_t>(numbers[numbers.size() - 1 - i]);
  return last;
}

// nullopt where one layout is as good as the other.
std::optional<bool> IsChannelsLast(const Descriptor& tensor) {
  const std::vector<int64_t> dimensions = Dimensions(&tensor);
  const auto strides = tensor.Numbers<int64_t>(AttributeName::kTensorStrides);
  const bool in_space = std::any_of(dimensions.begin() + 2, dimensions.end(),
                                    [](int64_t each) { return each > 1; });
  if (strides.size() != dimensions.size() || dimensions[1] == 1 || !in_space)
    return std::nullopt;
  return strides[1] == 1;
}

// Where both layouts are as good, nothing need be converted.
bool ReadLayout(const Descriptor& x, const Descriptor& y) {
  return IsChannelsLast(x).value_or(true) && IsChannelsLast(y).value_or(true);
}

std::optional<ConvolutionShape> ReadShape(const Descriptor& operation,
                                          const Names& names) {
  const Descriptor *const x = operation.Link(names.x),
                          *const w = operation.Link(names.w),
                          *const y = operation.Link(names.y),
                          *const how = operation.Link(names.convolution);
  const std::vector<int64_t> of_x = Dimensions(x), of_w = Dimensions(w),
                             of_y = Dimensions(y);
  const size_t count = of_x.size();
  if (how == nullptr || count < kFewest || count > kMost || of_w.size() != count ||
      of_y.size() != count || !ArePlausible(of_x) || !ArePlausible(of_w) ||
      !ArePlausible(of_y) || of_x[1] % of_w[1] != 0 || of_x[0] != of_y[0] ||
      of_w[0] != of_y[1])
    return std::nullopt;
  ConvolutionShape shape;
  shape.pass = names.pass;
  shape.type = TypeOf(*x);
  shape.channels_last = ReadLayout(*x, *y);
  shape.images = static_cast<uint32_t>(of_x[0]);
  shape.channels = static_cast<uint32_t>(of_x[1]);
  shape.filters = static_cast<uint32_t>(of_w[0]);
  shape.groups = static_cast<uint32_t>(of_x[1] / of_w[1]);
  const size_t in_space = count - 2;
  shape.input = InSpace(of_x, in_space);
  shape.output = InSpace(of_y, in_space);
  shape.filter = InSpace(of_w, in_space);
  shape.stride =
      InSpace(how->Numbers<int64_t>(AttributeName::kConvolutionStrides), in_space);
  shape.dilation =
      InSpace(how->Numbers<int64_t>(AttributeName::kConvolutionDilations), in_space);
  if (shape.filters % shape.groups != 0)
    return std::nullopt;
  return shape;
}

uint64_t BytesInMemory(const Descriptor* tensor) {
  if (tensor == nullptr || !InMemory(*tensor))
    return 0;
  uint64_t bytes = ElementBytes(TypeOf(*tensor));
  for (int64_t each : Dimensions(tensor))
    bytes *= static_cast<uint64_t>(each);
  return bytes;
}

class Convolution final : public Computation {
 public:
  Convolution(const ConvolutionShape& shape, bool tensor_cores,
              const protocol::GpuProperties& gpu)
      : tensor_cores_(tensor_cores),
        kernels_(ChooseKernels(shape, tensor_cores, gpu)) {}

  std::vector<NumericalNote> NumericalNotes() const override {
    std::vector<NumericalNote> notes;
    if (tensor_cores_)
      notes.push_back(kTensorCore);
    if (kernels_.winograd)
      notes.push_back(kWinograd);
    return notes;
  }
  uint64_t WorkspaceBytes() const override { return kernels_.workspace_bytes; }
  Error Launch(Gpu* gpu, void* stream, std::span<void* const> outputs,
               void* workspace) const override {
    return LaunchConvolution(gpu, stream, kernels_, outputs, workspace);
  }

 private:
  const bool tensor_cores_;
  const ConvolutionKernels kernels_;
};

}  // namespace

bool HasConvolution(const Descriptor& graph) {
  const auto& operations = graph.Links(AttributeName::kGraphOperations);
  return std::any_of(operations.begin(), operations.end(), [](const auto& operation) {
    return NamesOf(operation->type()).has_value();
  });
}

Computations ReadConvolution(const Descriptor& graph,
                             const protocol::GpuProperties& gpu, std::string* why) {
  std::optional<ConvolutionShape> shape;
  std::vector<int64_t> written;
  uint64_t fused_bytes = 0;
  for (const auto& operation : graph.Links(AttributeName::kGraphOperations)) {
    const std::optional<Names> names = NamesOf(operation->type());
    const bool pointwise = operation->type() == DescriptorType::kOperationPointwise;
    if (names ? shape.has_value() : !pointwise) {
      *why =
          "a convolution by cuDNN that is fused with other than pointwise operations";
      return {};
    }
    if (pointwise) {
      AddWritten(operation->Link(AttributeName::kOperationPointwiseY), &written);
      fused_bytes +=
          BytesInMemory(operation->Link(AttributeName::kOperationPointwiseB));
      continue;
    }
    shape = ReadShape(*operation, *names);
    if (!shape || ElementBytes(shape->type) == 0) {
      *why =
          "a convolution by cuDNN of other types than float16, bfloat16, float32 and "
          "float64, or of more than three dimensions";
      return {};
    }
    AddWritten(operation->Link(shape->pass == Pass::kForward        ? names->y
                               : shape->pass == Pass::kBackwardData ? names->x
                                                                    : names->w),
               &written);
  }
  shape->fused_bytes = fused_bytes;
  Computations engines;
  const auto add = [&](bool tensor_cores) {
    auto engine = std::make_shared<Convolution>(*shape, tensor_cores, gpu);
    engine->written = written;
    engines.push_back(std::move(engine));
  };
  const bool tensor_cores = CanUseTensorCores(*shape, gpu);
  if (tensor_cores)
    add(true);
  if (!tensor_cores || shape->type == DataType::kFloat)
    add(false);
  return engines;
}

}  // namespace vrank::gpu::dnn
