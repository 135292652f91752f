// The words among a launch's parameters that may be addresses.
//
// Thread rule: a pure function.

#ifndef VRANK_VIRTUAL_GPU_CORE_ADDRESS_WORDS_H_
#define VRANK_VIRTUAL_GPU_CORE_ADDRESS_WORDS_H_

#include <cstdint>
#include <cstring>

#include "virtual_gpu/core/kernel_code.h"
#include "virtual_gpu/core/named_effect.h"

namespace vrank::gpu {

// Calls `visit(place, word)` for each 8-byte word of a parameter of that size at `at`:
// for a list of tensors, the words that the launch uses; otherwise all from offset
// `first` on.
template <typename Visit>
void ForAddressWords(const KernelLaunch& launch, uint32_t parameter,
                     const unsigned char* at, uint32_t bytes, Visit visit,
                     uint32_t first = 0) {
  const auto word_at = [&](uint32_t place) {
    uint64_t word;
    std::memcpy(&word, at + place, sizeof word);
    visit(place, word);
  };
  const NamedEffect* const named = launch.kernel->effect.get();
  if (named != nullptr && bytes > sizeof(uint64_t) &&
      named->ForListedWords(launch, parameter, at, bytes, word_at))
    return;
  for (uint32_t place = first; place + sizeof(uint64_t) <= bytes;
       place += sizeof(uint64_t))
    word_at(place);
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ADDRESS_WORDS_H_
