// The version of vrank.
//
// Thread rule: constant data.

#ifndef VRANK_TOOLS_MACHINE_VERSION_H_
#define VRANK_TOOLS_MACHINE_VERSION_H_

namespace vrank::tools {

// "0.1.0".
const char* Version();

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_VERSION_H_
