// Holds a slice against the run that it was recorded in.
//
// Whatever is missing from a trace (a kind of records that a library of the program
// switched off, for one) makes a program that does less than the one which the emulator
// received from the same process at the same time. So the two are compared node by node
// (graph/build/program_comparison.h), whatever the cause may be.
//
// Thread rule: reads a file, keeps no state.

#ifndef VRANK_TOOLS_SLICES_SLICE_CHECK_H_
#define VRANK_TOOLS_SLICES_SLICE_CHECK_H_

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "graph/program/program.h"

namespace vrank::tools {

// How many nodes the finished slice in `file` and `emulated`, the program of its rank
// as the emulator received it, have in common; DataLoss with the first one that
// differs. Unless `strict`: 0 where they differ and a loss that is to be expected says
// why (graph::IsExpected), and where no program can be built from the slice.
absl::StatusOr<uint64_t> CheckSlice(const std::string& file,
                                    const graph::Program& emulated, bool strict);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_SLICES_SLICE_CHECK_H_
