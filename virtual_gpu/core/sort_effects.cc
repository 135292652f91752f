// Parts of sorts (sort_kernel.h): slices that are in order, no two keys equal, stay as
// they are; digits of known keys are counted; known keys are parted by a digit, with
// what goes with them.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/guest/minifloat.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/element_type.h"
#include "virtual_gpu/core/named_effect.h"
#include "virtual_gpu/core/sort_kernel.h"
#include "virtual_gpu/core/tensor_info.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kMostKeys = 1 << 24;
// The parameter of a sort of slices that holds what goes with the keys.
constexpr uint32_t kSortedValues = 4;

// What results are marked with (Origin::made_up), of inputs made up so.
const char* MadeUpAfter(const KernelLaunch& launch, const char* input,
                        Contents& contents) {
  return *input == '\0' ? input
                        : contents.NameMadeUp(launch.kernel->name.c_str(), input);
}

// Known bytes; nullopt where one is not. `made_up_by` becomes the writer of the first
// that is made up.
std::optional<std::vector<unsigned char>> ReadKnown(Contents& contents, uint64_t from,
                                                    uint64_t bytes,
                                                    const char** made_up_by) {
  if (bytes == 0 || !contents.IsValid(from, bytes))
    return std::nullopt;
  std::vector<unsigned char> read(bytes);
  return contents.ReadKnown(from, bytes, read.data(), made_up_by)
             ? std::optional(std::move(read))
             : std::nullopt;
}

// (keys, slices, length, ..., values, ...). Made-up keys leave made-up values.
bool AreInOrder(const SortKernel& kernel, const KernelLaunch& launch,
                Contents& contents) {
  TensorInfo keys;
  uint32_t slices, length, stride;
  if (!ReadParameter(launch, 0, &keys) || !ReadParameter(launch, 1, &slices) ||
      !ReadParameter(launch, 2, &length) || !ReadParameter(launch, 3, &stride) ||
      uint64_t{slices} * length > kMostKeys || !contents.Exists(keys.data) ||
      !keys.IsOnePiece(stride, slices, length))
    return false;
  const char* made_up_by = "";
  const auto bytes =
      ReadKnown(contents, keys.data, uint64_t{slices} * length * BytesOf(kernel.key),
                &made_up_by);
  if (!bytes.has_value())
    return false;
  const auto are_in_order = [&](auto key) {
    for (uint64_t i = 0; i + 1 < uint64_t{slices} * length; ++i)
      if ((i + 1) % length != 0 &&
          !(kernel.descending ? key(i) > key(i + 1) : key(i) < key(i + 1)))
        return false;
    return true;
  };
  bool in_order = false;
  if (IsHalfPrecision(kernel.key))
    in_order = are_in_order([&](uint64_t i) {
      uint16_t bits;
      std::memcpy(&bits, &(*bytes)[i * sizeof bits], sizeof bits);
      return kernel.key == 'H' ? Float16::Decode(bits) : Bfloat16::Decode(bits);
    });
  else
    WithElementType(kernel.key, [&](auto zero) {
      in_order = are_in_order([&](uint64_t i) {
        auto value = zero;
        std::memcpy(&value, &(*bytes)[i * sizeof value], sizeof value);
        return value;
      });
    });
  if (TensorInfo values;
      in_order && *made_up_by != '\0' && ReadParameter(launch, kSortedValues, &values))
    contents.MakeUpInReach(values.data, MadeUpAfter(launch, made_up_by, contents));
  return in_order;
}

constexpr int32_t kDigitBits = 8;
constexpr uint64_t kDigits = 1 << kDigitBits;

// A key's bits in the order that it is sorted by.
template <typename Key>
uint64_t OrderedBits(const std::vector<unsigned char>& keys, uint64_t i,
                     bool descending) {
  Key key;
  std::memcpy(&key, &keys[i * sizeof key], sizeof key);
  auto bits = static_cast<uint64_t>(key);
  if (std::is_signed_v<Key>)
    bits ^= uint64_t{1} << (8 * sizeof key - 1);
  return descending ? ~bits : bits;
}

// (counts, keys, number of keys, first bit, last bit, ...): counts of each digit of 8
// bits, pass by pass, are added to.
bool CountDigits(const SortKernel& kernel, const KernelLaunch& launch,
                 Contents& contents) {
  uint64_t to, from, count;
  int32_t first_bit, last_bit;
  if (!ReadParameter(launch, 0, &to) || !ReadParameter(launch, 1, &from) ||
      !ReadParameter(launch, 2, &count) || !ReadParameter(launch, 3, &first_bit) ||
      !ReadParameter(launch, 4, &last_bit) || count == 0 || count > kMostKeys ||
      first_bit < 0 || last_bit <= first_bit)
    return false;
  const uint64_t key_bytes = BytesOf(kernel.key);
  if (static_cast<uint64_t>(last_bit) > 8 * key_bytes)
    return false;
  const auto passes =
      static_cast<uint64_t>((last_bit - first_bit + kDigitBits - 1) / kDigitBits);
  const char* made_up_by = "";
  const auto keys = ReadKnown(contents, from, count * key_bytes, &made_up_by);
  auto counts =
      ReadKnown(contents, to, passes * kDigits * sizeof(uint64_t), &made_up_by);
  if (!keys.has_value() || !counts.has_value())
    return false;
  WithElementType(kernel.key, [&](auto zero) {
    using Key = decltype(zero);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t bits = OrderedBits<Key>(*keys, i, kernel.descending);
      for (uint64_t pass = 0; pass < passes; ++pass) {
        const int32_t at = first_bit + static_cast<int32_t>(pass) * kDigitBits;
        const int32_t width = std::min(kDigitBits, last_bit - at);
        const uint64_t digit = bits >> at & ((uint64_t{1} << width) - 1);
        unsigned char* const place =
            &(*counts)[(pass * kDigits + digit) * sizeof(uint64_t)];
        uint64_t number;
        std::memcpy(&number, place, sizeof number);
        ++number;
        std::memcpy(place, &number, sizeof number);
      }
    }
  });
  return contents.StoreBytes(to, counts->data(), counts->size(),
                             MadeUpAfter(launch, made_up_by, contents));
}

// (what blocks tell each other, a counter of blocks, places of digits and those of the
// next portion, keys to and from, values to and from, number of keys, first bit, bits).
// As many keys as these are one portion.
bool PartByDigit(const SortKernel& kernel, const KernelLaunch& launch,
                 Contents& contents) {
  uint64_t told, counter, to, from, values_to = 0, values_from = 0;
  int32_t count, first_bit, width;
  const uint64_t key_bytes = BytesOf(kernel.key), value_bytes = kernel.value_bytes;
  if (!ReadParameter(launch, 0, &told) || !ReadParameter(launch, 1, &counter) ||
      !ReadParameter(launch, 4, &to) || !ReadParameter(launch, 5, &from) ||
      !ReadParameter(launch, 6, &values_to) ||
      !ReadParameter(launch, 7, &values_from) || !ReadParameter(launch, 8, &count) ||
      !ReadParameter(launch, 9, &first_bit) || !ReadParameter(launch, 10, &width) ||
      count <= 0 || static_cast<uint64_t>(count) > kMostKeys || first_bit < 0 ||
      width <= 0 || width > kDigitBits ||
      static_cast<uint64_t>(first_bit + width) > 8 * key_bytes)
    return false;
  const auto number = static_cast<uint64_t>(count);
  const char* made_up_by = "";
  const auto keys = ReadKnown(contents, from, number * key_bytes, &made_up_by);
  if (!keys.has_value() || !contents.IsValid(to, keys->size()))
    return false;
  std::optional<std::vector<unsigned char>> values;
  if (value_bytes != 0)
    values = ReadKnown(contents, values_from, number * value_bytes, &made_up_by);
  if (value_bytes != 0 &&
      (!values.has_value() || !contents.IsValid(values_to, values->size())))
    return false;
  std::vector<uint64_t> digits(number);
  WithElementType(kernel.key, [&](auto zero) {
    using Key = decltype(zero);
    for (uint64_t i = 0; i < number; ++i)
      digits[i] = OrderedBits<Key>(*keys, i, kernel.descending) >> first_bit &
                  ((uint64_t{1} << width) - 1);
  });
  uint64_t next[kDigits + 1] = {};
  for (const uint64_t digit : digits)
    ++next[digit + 1];
  for (uint64_t digit = 1; digit <= kDigits; ++digit)
    next[digit] += next[digit - 1];
  std::vector<unsigned char> keys_out(keys->size()), values_out(number * value_bytes);
  for (uint64_t i = 0; i < number; ++i) {
    const uint64_t place = next[digits[i]]++;
    std::memcpy(&keys_out[place * key_bytes], &(*keys)[i * key_bytes], key_bytes);
    if (value_bytes != 0)
      std::memcpy(&values_out[place * value_bytes], &(*values)[i * value_bytes],
                  value_bytes);
  }
  const Origin unknown = Origin::Computed(launch.kernel->writer());
  const uint64_t told_bytes = launch.grid[0] * kDigits * sizeof(int32_t);
  if (!contents.IsValid(told, told_bytes) ||
      !contents.IsValid(counter, sizeof(int32_t)))
    return false;
  contents.Write(told, told_bytes, unknown);
  contents.Write(counter, sizeof(int32_t), unknown);
  const char* const writer = MadeUpAfter(launch, made_up_by, contents);
  return contents.StoreBytes(to, keys_out.data(), keys_out.size(), writer) &&
         (value_bytes == 0 ||
          contents.StoreBytes(values_to, values_out.data(), values_out.size(), writer));
}

class SortEffect final : public NamedEffect {
 public:
  explicit SortEffect(const SortKernel& kernel) : kernel_(kernel) {}

  bool Compute(const KernelLaunch& launch, Contents& contents) const override {
    switch (kernel_.kind) {
      case SortKernel::Kind::kNone:
        return false;
      case SortKernel::Kind::kSlices:
        return AreInOrder(kernel_, launch, contents);
      case SortKernel::Kind::kHistogram:
        return CountDigits(kernel_, launch, contents);
      case SortKernel::Kind::kOnesweep:
        return PartByDigit(kernel_, launch, contents);
    }
    return false;
  }

 private:
  const SortKernel kernel_;
};

}  // namespace

std::unique_ptr<const NamedEffect> NewSortEffect(std::string_view mangled) {
  const SortKernel kernel = ParseSortKernel(mangled);
  if (kernel.kind == SortKernel::Kind::kNone)
    return nullptr;
  return std::make_unique<SortEffect>(kernel);
}

}  // namespace vrank::gpu
