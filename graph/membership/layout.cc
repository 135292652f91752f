// Parsing layouts and reckoning with coordinates.

#include "graph/membership/layout.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"

namespace vrank::graph {
namespace {

constexpr char kPipeline[] = "pp";
// Megatron's order. The first varies fastest: tensor-parallel peers are neighbours.
const char* const kDefaultOrder[] = {"tp", "cp", "ep", "dp", "pp"};
constexpr size_t kMaxDimensions = 8;

absl::Status Malformed(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(
      fmt::format("layout '{}': {}; write it like tp=8,pp=16,dp=8 or "
                  "tp=8,pp=16,dp=8,order=tp-dp-pp",
                  text, why));
}

std::vector<std::string> SplitText(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) {
      return parts;
    }
    begin = end + 1;
  }
}

void Factorize(int32_t size, size_t factors, std::vector<int32_t>* prefix,
               std::vector<std::vector<int32_t>>* all) {
  if (factors == 1) {
    if (size > 1) {
      prefix->push_back(size);
      all->push_back(*prefix);
      prefix->pop_back();
    }
    return;
  }
  for (int32_t factor = 2; factor <= size / 2; ++factor) {
    if (size % factor != 0)
      continue;
    prefix->push_back(factor);
    Factorize(size / factor, factors - 1, prefix, all);
    prefix->pop_back();
  }
}

bool IsName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

absl::StatusOr<std::vector<std::string>> DefaultOrder(
    const std::map<std::string, int32_t>& sizes, const std::string& text) {
  std::vector<std::string> order(std::begin(kDefaultOrder), std::end(kDefaultOrder));
  for (const auto& [name, size] : sizes) {
    if (std::find(order.begin(), order.end(), name) == order.end()) {
      return Malformed(text, fmt::format("dimension '{}' has no place in the default "
                                         "order {}, add order=",
                                         name, fmt::join(order, "-")));
    }
  }
  order.erase(
      std::remove_if(order.begin(), order.end(),
                     [&](const std::string& name) { return !sizes.count(name); }),
      order.end());
  return order;
}

}  // namespace

std::vector<std::vector<int32_t>> Factorizations(int32_t size, size_t factors) {
  std::vector<std::vector<int32_t>> all;
  std::vector<int32_t> prefix;
  Factorize(size, factors, &prefix, &all);
  return all;
}

absl::StatusOr<Layout> Layout::Parse(const std::string& text, int32_t world_size) {
  ASSIGN_OR_RETURN(Layout layout, ParseUpTo(text, world_size));
  if (layout.world_size_ < world_size)
    return absl::InvalidArgumentError(fmt::format(
        "layout '{}' makes {} ranks, but the world size is {}; correct either", text,
        layout.world_size_, world_size));
  return layout;
}

absl::StatusOr<Layout> Layout::ParseWorld(const std::string& text) {
  return ParseUpTo(text, kMaxWorldSize);
}

// A layout of at most `most` ranks.
absl::StatusOr<Layout> Layout::ParseUpTo(const std::string& text, int32_t most) {
  std::map<std::string, int32_t> sizes;
  std::vector<std::string> order;
  for (const std::string& part : SplitText(text, ',')) {
    const size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (equals == std::string::npos || !IsName(name)) {
      return Malformed(text, fmt::format("'{}' is not NAME=SIZE", part));
    }
    const std::string value = part.substr(equals + 1);
    if (name == "order") {
      order = SplitText(value, '-');
      continue;
    }
    int32_t size = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, size);
    if (error != std::errc() || stop != end || size < 1) {
      return Malformed(text, fmt::format("'{}' is no size", value));
    }
    if (!sizes.emplace(name, size).second) {
      return Malformed(text, fmt::format("'{}' is given twice", name));
    }
  }
  if (sizes.empty()) {
    return Malformed(text, "it has no dimension");
  }
  if (order.empty()) {
    ASSIGN_OR_RETURN(order, DefaultOrder(sizes, text));
  }

  Layout layout;
  int64_t product = 1;
  std::vector<std::string> factors;
  for (const std::string& name : order) {
    const auto found = sizes.find(name);
    if (found == sizes.end()) {
      return Malformed(text,
                       fmt::format("order names '{}', which has no size, or names "
                                   "it twice",
                                   name));
    }
    if (found->second > 1) {
      layout.dimensions_.push_back(
          {name, found->second, static_cast<int32_t>(product)});
    }
    factors.push_back(fmt::format("{} {}", name, found->second));
    product *= found->second;
    sizes.erase(found);
    if (product > most) {
      return absl::InvalidArgumentError(fmt::format(
          "layout '{}': {} make at least {} ranks, but the world size is {}; correct "
          "either",
          text, fmt::join(factors, " x "), product, most));
    }
  }
  if (!sizes.empty()) {
    return Malformed(text,
                     fmt::format("'{}' is missing in order", sizes.begin()->first));
  }
  if (layout.dimensions_.size() > kMaxDimensions) {
    return Malformed(text,
                     fmt::format("it has more than {} dimensions", kMaxDimensions));
  }
  layout.world_size_ = static_cast<int32_t>(product);
  for (size_t i = 0; i < layout.dimensions_.size(); ++i) {
    if (layout.dimensions_[i].name == kPipeline) {
      layout.pipeline_ = static_cast<int32_t>(i);
    }
  }
  return layout;
}

Layout Layout::Flat(int32_t world_size) {
  Layout layout;
  layout.world_size_ = world_size;
  layout.is_default_ = true;
  if (world_size > 1) {
    layout.dimensions_.push_back({"dp", world_size, 1});
  }
  return layout;
}

Layout Layout::OfSizes(const std::vector<int32_t>& sizes) {
  Layout layout;
  for (const int32_t size : sizes) {
    layout.dimensions_.push_back({"", size, layout.world_size_});
    layout.world_size_ *= size;
  }
  return layout;
}

Layout Layout::Cut(size_t index, int32_t stride, int32_t size, size_t* part) const {
  Layout cut;
  cut.world_size_ = world_size_;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    const Dimension& whole = dimensions_[i];
    if (i != index) {
      cut.dimensions_.push_back(whole);
      continue;
    }
    if (stride > 1)
      cut.dimensions_.push_back({whole.name, stride, whole.stride});
    *part = cut.dimensions_.size();
    cut.dimensions_.push_back({whole.name, size, whole.stride * stride});
    if (stride * size < whole.size)
      cut.dimensions_.push_back(
          {whole.name, whole.size / (stride * size), whole.stride * stride * size});
  }
  return cut;
}

int32_t Layout::Combine(int32_t rank, DimensionSet dimensions, int32_t other) const {
  int32_t combined = rank;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (dimensions >> i & 1) {
      combined += (Coordinate(other, i) - Coordinate(rank, i)) * dimensions_[i].stride;
    }
  }
  return combined;
}

std::vector<int32_t> Layout::Group(int32_t rank, DimensionSet dimensions) const {
  std::vector<int32_t> group = {
      Combine(rank, dimensions, 0)};  // coordinates 0 in the set
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (!(dimensions >> i & 1)) {
      continue;
    }
    // Slower dimensions come later and lie further apart: the result stays ascending.
    const size_t slice = group.size();
    for (int32_t step = 1; step < dimensions_[i].size; ++step) {
      for (size_t k = 0; k < slice; ++k) {
        group.push_back(group[k] + step * dimensions_[i].stride);
      }
    }
  }
  return group;
}

int64_t Layout::PlaceInGroup(int32_t rank, DimensionSet dimensions) const {
  int64_t place = 0;
  int64_t weight = 1;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (dimensions >> i & 1) {
      place += weight * Coordinate(rank, i);
      weight *= dimensions_[i].size;
    }
  }
  return place;
}

int64_t Layout::GroupSize(DimensionSet dimensions) const {
  int64_t size = 1;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (dimensions >> i & 1) {
      size *= dimensions_[i].size;
    }
  }
  return size;
}

DimensionSet Layout::Varying(const std::vector<int32_t>& ranks) const {
  DimensionSet varying = 0;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    for (int32_t rank : ranks) {
      if (Coordinate(rank, i) != Coordinate(ranks.front(), i)) {
        varying |= DimensionSet{1} << i;
        break;
      }
    }
  }
  return varying;
}

int32_t Layout::ClassOf(int32_t rank) const {
  return pipeline_ < 0 ? 0 : Coordinate(rank, static_cast<size_t>(pipeline_));
}

int32_t Layout::classes() const {
  return pipeline_ < 0 ? 1 : dimensions_[static_cast<size_t>(pipeline_)].size;
}

std::string Layout::SetName(DimensionSet dimensions) const {
  if (dimensions == 0) {
    return "none";
  }
  if (dimensions == all()) {
    return "world";
  }
  std::string name;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (dimensions >> i & 1) {
      name += (name.empty() ? "" : "-") + dimensions_[i].name;
    }
  }
  return name;
}

absl::StatusOr<DimensionSet> Layout::ParseSet(const std::string& name) const {
  if (name == "none") {
    return DimensionSet{0};
  }
  if (name == "world") {
    return all();
  }
  DimensionSet set = 0;
  for (const std::string& part : SplitText(name, '-')) {
    const auto found = std::find_if(
        dimensions_.begin(), dimensions_.end(),
        [&](const Dimension& dimension) { return dimension.name == part; });
    if (found == dimensions_.end()) {
      return absl::InvalidArgumentError(
          fmt::format("'{}' is no dimension of the layout {} with a size above 1", part,
                      ToString()));
    }
    set |= DimensionSet{1} << (found - dimensions_.begin());
  }
  return set;
}

std::string Layout::Describe(int32_t rank) const {
  std::string text;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", dimensions_[i].name,
                        Coordinate(rank, i));
  }
  return text;
}

std::string Layout::ToString() const {
  if (dimensions_.empty()) {
    return "dp=1";
  }
  std::vector<std::string> sizes;
  std::vector<std::string> names;
  for (const Dimension& dimension : dimensions_) {
    sizes.push_back(fmt::format("{}={}", dimension.name, dimension.size));
    names.push_back(dimension.name);
  }
  return fmt::format("{},order={}", fmt::join(sizes, ","), fmt::join(names, "-"));
}

std::string Layout::Claim() const {
  return is_default_ ? "one data-parallel group of all ranks (no --layout was given)"
                     : "the layout " + ToString();
}

std::string Layout::Remedy() const {
  return is_default_ ? "state the job's --layout, like tp=2,pp=2,dp=2"
                     : "correct --layout";
}

}  // namespace vrank::graph
