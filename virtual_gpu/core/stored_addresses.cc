#include "virtual_gpu/core/stored_addresses.h"

#include <algorithm>
#include <memory>

#include "virtual_gpu/core/address_words.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {
namespace {

// Optional pointers and unused parts of structures make several sets of places. More
// are not told.
constexpr size_t kMostSets = 16;

// Calls `visit(offset, word)` for each aligned word of the parameters. False where some
// parameters are not known.
template <typename Visit>
bool ForWords(const KernelLaunch& launch, Visit visit) {
  const KernelSignature& signature = launch.kernel->signature;
  if (!signature.complete || signature.known != signature.count)
    return false;
  for (uint32_t i = 0; i < signature.count; ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    const unsigned char* const at = ArgumentAt(launch, i);
    if (at == nullptr)
      return false;
    constexpr uint32_t kBytes = sizeof(uint64_t);
    const uint32_t first =
        (parameter.offset + kBytes - 1) / kBytes * kBytes - parameter.offset;
    ForAddressWords(
        launch, i, at, parameter.size,
        [&](uint32_t place, uint64_t word) { visit(parameter.offset + place, word); },
        first);
  }
  return true;
}

StoredParameters ReadStored(const KernelComputation& how,
                            const std::vector<uint32_t>& pointers) {
  if (how.code != nullptr)
    return FindStoredParameters(*how.code, pointers);
  const std::unique_ptr<MachineCode> code = how.read ? how.read() : nullptr;
  return code == nullptr ? StoredParameters() : FindStoredParameters(*code, pointers);
}

}  // namespace

std::optional<std::vector<uint64_t>> FindStoredAddresses(const KernelLaunch& launch,
                                                         const Contents& contents) {
  KernelComputation& how = launch.kernel->computation;
  if (how.code == nullptr && !how.read && how.stored.empty())
    return std::nullopt;
  std::vector<uint32_t> offsets;
  std::vector<uint64_t> addresses;
  const bool all = ForWords(launch, [&](uint32_t offset, uint64_t word) {
    if (contents.DeviceOf(word) < 0)
      return;
    offsets.push_back(offset);
    addresses.push_back(word);
  });
  if (!all)
    return std::nullopt;
  auto known =
      std::find_if(how.stored.begin(), how.stored.end(),
                   [&](const auto& stored) { return stored.pointers == offsets; });
  if (known == how.stored.end()) {
    if (how.stored.size() == kMostSets)
      return std::nullopt;
    known = how.stored.insert(known, {offsets, ReadStored(how, offsets)});
  }
  if (!known->found.known)
    return std::nullopt;
  std::vector<uint64_t> stored;
  for (size_t i = 0; i < offsets.size(); ++i)
    if (std::binary_search(known->found.words.begin(), known->found.words.end(),
                           offsets[i]))
      stored.push_back(addresses[i]);
  return stored;
}

}  // namespace vrank::gpu
