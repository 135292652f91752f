// Bounds-checked reading of a launch's parameters.

#include "graph/models/argument_fields.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "base/guest/tensor_list.h"

namespace vrank::graph {
namespace {

template <typename T>
bool Read(std::span<const std::byte> from, uint64_t offset, T* value) {
  if (offset > from.size() || from.size() - offset < sizeof(T)) {
    return false;
  }
  std::memcpy(value, from.data() + offset, sizeof(T));
  return true;
}

// Of `count` numbers, one behind the other.
template <typename T>
std::optional<double> SumOrLargest(bool largest, std::span<const std::byte> from,
                                   uint64_t at, uint64_t count) {
  double result = 0;
  for (uint64_t i = 0; i < count; ++i) {
    T value;
    if (!Read(from, at + i * sizeof(T), &value)) {
      return std::nullopt;
    }
    const double number = static_cast<double>(value);
    result = !largest ? result + number : i == 0 ? number : std::max(result, number);
  }
  return result;
}

uint64_t CountOf(FieldCount count, const uint32_t grid[3]) {
  return count == GRID_X ? grid[0] : count == GRID_Y ? grid[1] : 1;
}

// c10/core/ScalarType.h of PyTorch 2.11.
std::optional<double> BytesOfScalar(uint8_t type) {
  constexpr uint8_t kBytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1};
  constexpr uint8_t kBFloat16 = 15;
  if (type == kBFloat16) {
    return 2;
  }
  return type < std::size(kBytes) ? std::optional<double>(kBytes[type]) : std::nullopt;
}

std::optional<double> ReadOne(const KernelField& field,
                              std::span<const std::byte> parameters,
                              const uint32_t grid[3]) {
  if (field.before_end() > parameters.size()) {
    return std::nullopt;
  }
  const uint64_t at =
      field.before_end() != 0 ? parameters.size() - field.before_end() : field.at();
  const bool largest = field.largest() != ONE;
  const uint64_t count = CountOf(largest ? field.largest() : field.sum(), grid);
  switch (field.type()) {
    case INT32:
      return SumOrLargest<int32_t>(largest, parameters, at, count);
    case INT64:
      return SumOrLargest<int64_t>(largest, parameters, at, count);
    case UINT8:
      return SumOrLargest<uint8_t>(largest, parameters, at, count);
    case FLOAT32:
      return SumOrLargest<float>(largest, parameters, at, count);
    case SCALAR_TYPE: {
      uint8_t type;
      return Read(parameters, at, &type) ? BytesOfScalar(type) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

int64_t ElementsOfChunk(const KernelChunks& chunks, int64_t size, int32_t chunk) {
  return std::clamp<int64_t>(size - int64_t{chunk} * chunks.chunk(), 0, chunks.chunk());
}

TensorList ListOf(const KernelChunks& chunks) {
  using Kind = TensorList::Kind;
  constexpr Kind kKinds[] = {Kind::kNone, Kind::kPlain, Kind::kScalars,
                             Kind::kStepCounts};
  return {kKinds[chunks.list()], chunks.depth(), chunks.scalar_bytes()};
}

// Rows of addresses come first, one behind the other, and the counts behind them.
std::optional<double> DistinctRows(std::span<const std::byte> parameters,
                                   const TensorListLayout& layout, uint32_t depth) {
  const uint64_t row = layout.counts / depth;
  std::set<uint64_t> firsts;
  for (uint64_t i = 0; i < depth; ++i) {
    uint64_t address;
    if (!Read(parameters, i * row, &address))
      return std::nullopt;
    firsts.insert(address);
  }
  return static_cast<double>(firsts.size());
}

std::optional<double> ReadList(const KernelChunks& chunks,
                               std::span<const std::byte> parameters, uint32_t blocks) {
  constexpr size_t kShortParameters = 4096;
  const TensorListLayout layout =
      LayOut(ListOf(chunks), parameters.size() <= kShortParameters ? kShortTensorLists
                                                                   : kLongTensorLists);
  if (layout.size > parameters.size() || blocks > layout.most_blocks)
    return std::nullopt;
  const auto* const list = reinterpret_cast<const unsigned char*>(parameters.data());
  if (chunks.count() == ROWS)
    return DistinctRows(parameters, layout, chunks.depth());
  int64_t elements = 0;
  for (uint64_t block = 0; block < blocks; ++block) {
    const uint64_t tensor = layout.TensorOf(list, block);
    if (tensor >= layout.most_tensors)
      return std::nullopt;
    elements += ElementsOfChunk(chunks, layout.CountOf(list, tensor),
                                layout.ChunkOf(list, block));
  }
  return static_cast<double>(elements);
}

std::optional<double> ReadOne(const KernelChunks& chunks,
                              std::span<const std::byte> parameters,
                              const uint32_t grid[3]) {
  if (chunks.list() != NO_LIST)
    return ReadList(chunks, parameters, grid[0]);
  int64_t elements = 0;
  for (uint64_t block = 0; block < grid[0]; ++block) {
    uint8_t tensor;
    int32_t chunk;
    int64_t size;
    if (!Read(parameters, chunks.tensors_at() + block, &tensor) ||
        !Read(parameters, chunks.chunks_at() + 4 * block, &chunk) ||
        !Read(parameters, chunks.sizes_at() + uint64_t{8} * tensor, &size)) {
      return std::nullopt;
    }
    elements += ElementsOfChunk(chunks, size, chunk);
  }
  return static_cast<double>(elements);
}

// OffsetCalculator: how many dimensions there are, a divisor of each (its size, and two
// numbers to divide by it), and the strides of each, operand by operand.
std::optional<double> ReadOne(const KernelOperand& operand,
                              std::span<const std::byte> parameters,
                              const uint32_t /*grid*/[3]) {
  constexpr uint64_t kMostDimensions = 25, kDivisorBytes = 12;
  const uint64_t sizes = uint64_t{operand.at()} + sizeof(int32_t);
  const uint64_t strides = sizes + kMostDimensions * kDivisorBytes;
  int32_t dimensions;
  if (!Read(parameters, operand.at(), &dimensions) || dimensions < 0 ||
      static_cast<uint64_t>(dimensions) > kMostDimensions)
    return std::nullopt;
  double distinct = 1;
  for (uint64_t i = 0; i < static_cast<uint64_t>(dimensions); ++i) {
    uint32_t size, stride;
    if (!Read(parameters, sizes + i * kDivisorBytes, &size) ||
        !Read(parameters,
              strides + (i * operand.operands() + operand.operand()) * sizeof stride,
              &stride))
      return std::nullopt;
    if (stride == 0 && size > 1)
      distinct /= size;
  }
  return distinct;
}

}  // namespace

absl::StatusOr<std::vector<ArgumentField>> FieldsOf(const KernelCostEntry& entry) {
  std::vector<ArgumentField> fields;
  for (const KernelField& field : entry.field()) {
    fields.push_back({field.name(), field});
  }
  for (const KernelChunks& chunks : entry.chunks()) {
    if (chunks.chunk() == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "kernel '{}': chunks '{}' have no size", entry.regex(), chunks.name()));
    }
    if (chunks.list() != NO_LIST &&
        (chunks.depth() == 0 || chunks.depth() > TensorList::kMostDepth)) {
      return absl::InvalidArgumentError(fmt::format(
          "kernel '{}': chunks '{}' are of lists of depth {}, which goes "
          "from 1 to {}",
          entry.regex(), chunks.name(), chunks.depth(), TensorList::kMostDepth));
    }
    if (chunks.list() == NO_LIST && chunks.count() == ROWS) {
      return absl::InvalidArgumentError(
          fmt::format("kernel '{}': chunks '{}' count rows of no list", entry.regex(),
                      chunks.name()));
    }
    if (chunks.list() == SCALARS && chunks.scalar_bytes() == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "kernel '{}': chunks '{}' lack scalar_bytes", entry.regex(), chunks.name()));
    }
    fields.push_back({chunks.name(), chunks});
  }
  for (const KernelOperand& operand : entry.operand()) {
    if (operand.operand() >= operand.operands()) {
      return absl::InvalidArgumentError(
          fmt::format("kernel '{}': operand '{}' is number {} of {}", entry.regex(),
                      operand.name(), operand.operand(), operand.operands()));
    }
    fields.push_back({operand.name(), operand});
  }
  std::set<std::string> names;
  for (const ArgumentField& field : fields) {
    if (field.name.empty() || !names.insert(field.name).second) {
      return absl::InvalidArgumentError(
          fmt::format("kernel '{}': a field '{}' without a name of its own",
                      entry.regex(), field.name));
    }
  }
  return fields;
}

std::optional<double> ReadField(const ArgumentField& field,
                                std::span<const std::byte> parameters,
                                const uint32_t grid[3]) {
  return std::visit([&](const auto& what) { return ReadOne(what, parameters, grid); },
                    field.what);
}

}  // namespace vrank::graph
