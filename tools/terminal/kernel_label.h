// Names of kernels for tables: what tells one kernel from another in as few characters
// as that takes.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_TERMINAL_KERNEL_LABEL_H_
#define VRANK_TOOLS_TERMINAL_KERNEL_LABEL_H_

#include <string>

namespace vrank::tools {

inline constexpr size_t kKernelLabelSize = 76;

// Of a demangled template: its name and arguments without namespaces, and without
// arguments that say how the kernel is launched (vector widths, arrays of pointers).
// Where that is too long, inner arguments become "...", and the longest of the others
// lose their middle. Other names as Shortened.
std::string KernelLabel(const std::string& name);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_TERMINAL_KERNEL_LABEL_H_
