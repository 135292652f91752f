// What a number is to the program whose host reads it alone, as far as the kernel that
// would have computed it tells: the size of a tensor, an integer or a truth value, by
// which programs branch, or another one, as losses are.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_NUMBER_READ_H_
#define VRANK_VIRTUAL_GPU_CORE_NUMBER_READ_H_

#include <cstdint>
#include <string_view>

namespace vrank::gpu {

enum class NumberRead : uint8_t {
  kOther,
  // How many elements a result has: operators whose results have a size that only the
  // device knows (nonzero, unique, masks) count by CUB and read the number themselves.
  kSize,
  kDecision,
};

// `writer`: the kernel's mangled name. `bytes`: of the whole copy to the host.
NumberRead ClassifyRead(std::string_view writer, uint64_t bytes);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_NUMBER_READ_H_
