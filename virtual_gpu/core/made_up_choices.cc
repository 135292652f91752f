#include "virtual_gpu/core/made_up_choices.h"

#include <cstring>
#include <memory>
#include <vector>

#include "base/guest/minifloat.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/element_type.h"
#include "virtual_gpu/core/named_effect.h"
#include "virtual_gpu/core/tensor_info.h"

namespace vrank::gpu {
namespace {

// Parameters of sbtopk::gatherTopK (aten/src/ATen/native/cuda/TensorTopK.cu).
enum : uint32_t {
  kScores = 0,
  kSliceLength = 1,
  kChosen = 2,
  kSlices = 4,
  kValues = 6,
  kValueStride = 7,
  kPlaces = 8,
  kPlaceStride = 9,
};
constexpr uint64_t kMostPlaces = 1 << 24;

void PutNumber(char type, double number, unsigned char* to) {
  if (type == 'd') {
    std::memcpy(to, &number, sizeof number);
    return;
  }
  const auto single = static_cast<float>(number);
  if (type == 'f') {
    std::memcpy(to, &single, sizeof single);
    return;
  }
  const auto half = static_cast<uint16_t>(type == 'H' ? Float16::Encode(single)
                                                      : Bfloat16::Encode(single));
  std::memcpy(to, &half, sizeof half);
}

// The same of a top-k.
uint64_t MakeUpTopK(char type, const KernelLaunch& launch, Contents& contents) {
  TensorInfo scores, values, places;
  uint32_t length, k, slices, value_stride, place_stride;
  if (!ReadParameter(launch, kScores, &scores) ||
      !ReadParameter(launch, kSliceLength, &length) ||
      !ReadParameter(launch, kChosen, &k) || !ReadParameter(launch, kSlices, &slices) ||
      !ReadParameter(launch, kValues, &values) ||
      !ReadParameter(launch, kValueStride, &value_stride) ||
      !ReadParameter(launch, kPlaces, &places) ||
      !ReadParameter(launch, kPlaceStride, &place_stride) ||
      !places.IsOnePiece(place_stride, slices, k) ||
      !values.IsOnePiece(value_stride, slices, k))
    return 0;
  return MakeUpChoices({.slices = slices,
                        .length = length,
                        .chosen = k,
                        .places = places.data,
                        .values = values.data,
                        .type = type},
                       launch, contents);
}

class TopKEffect final : public NamedEffect {
 public:
  explicit TopKEffect(char type) : type_(type) {}

  bool Write(const KernelLaunch& launch, Contents& contents) const override {
    return MakeUpTopK(type_, launch, contents) != 0;
  }

 private:
  const char type_;
};

}  // namespace

uint64_t MakeUpChoices(const Choices& choices, const KernelLaunch& launch,
                       Contents& contents) {
  const uint64_t count = choices.slices * choices.chosen;
  if (choices.chosen == 0 || choices.chosen > choices.length || count == 0 ||
      count > kMostPlaces)
    return 0;
  const uint32_t value_bytes = BytesOf(choices.type);
  std::vector<int64_t> chosen(count);
  std::vector<unsigned char> numbers(count * value_bytes);
  for (uint64_t i = 0; i < count; ++i) {
    chosen[i] = static_cast<int64_t>(i % choices.length);
    if (value_bytes != 0)
      PutNumber(choices.type,
                1.0 - static_cast<double>(i % choices.chosen) /
                          static_cast<double>(choices.chosen),
                &numbers[i * value_bytes]);
  }
  const uint64_t place_bytes = count * sizeof(int64_t);
  const char* const writer =
      contents.NameWriter(launch.kernel->name.c_str(),
                          "made up: chosen without the scores, all equally often");
  if (!contents.IsValid(choices.places, place_bytes) ||
      (value_bytes != 0 && !contents.IsValid(choices.values, numbers.size())) ||
      !contents.StoreBytes(choices.places, chosen.data(), place_bytes, writer) ||
      (value_bytes != 0 &&
       !contents.StoreBytes(choices.values, numbers.data(), numbers.size(), writer)))
    return 0;
  contents.CountMadeUp(count, launch.kernel->name);
  return count;
}

char ParseTopK(std::string_view mangled) {
  if (!Skip(&mangled, "_ZN2at6native6sbtopk10gatherTopKI"))
    return 0;
  const char type = SkipFloatType(&mangled);
  return mangled.starts_with('j') ? type : 0;  // indices of 32 bits
}

std::unique_ptr<const NamedEffect> NewTopKEffect(std::string_view mangled) {
  const char type = ParseTopK(mangled);
  if (type == 0)
    return nullptr;
  return std::make_unique<TopKEffect>(type);
}

}  // namespace vrank::gpu
