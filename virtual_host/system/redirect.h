// Which of our stand-ins a library name means.
//
// Thread rule: a pure function.

#ifndef VRANK_VIRTUAL_HOST_SYSTEM_REDIRECT_H_
#define VRANK_VIRTUAL_HOST_SYSTEM_REDIRECT_H_

#include <string_view>

namespace vrank::host {

// The SONAME of the stand-in for `file` (a name or a path):
// "/opt/cuda/lib64/libcudart.so" gives "libcudart.so.13". Empty where we have none:
// other libraries, other majors.
std::string_view StandInFor(std::string_view file);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_SYSTEM_REDIRECT_H_
