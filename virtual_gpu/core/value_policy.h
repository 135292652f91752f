// What the host reads where a kernel would have computed it: zero, or what a rule of
// the user's says for kernels of that name (`--values`).
//
// Thread rule: pure functions; the policy is called under the GPU's lock.

#ifndef VRANK_VIRTUAL_GPU_CORE_VALUE_POLICY_H_
#define VRANK_VIRTUAL_GPU_CORE_VALUE_POLICY_H_

#include <string_view>

#include "virtual_gpu/core/contents.h"

namespace vrank::gpu {

// `rules`: a line each: the bytes of one element in hexadecimal digits, a space, the
// pattern of the kernel's name, demangled; * stands for any text. The first one that
// fits holds. Lines of another form fit nothing. Where nothing fits, the policy has no
// value.
ValuePolicy MakeValuePolicy(std::string_view rules);

// Whether `text` is of the form that `pattern` says.
bool MatchesPattern(std::string_view text, std::string_view pattern);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_VALUE_POLICY_H_
