// What fills the memory of PyTorch's tensors when it is fullest, by the part of which
// iteration took it.
//
// A backward pass is what PyTorch's autograd engine takes by its own threads. What else
// an iteration takes before (the end of) its backward pass is of its forward pass, and
// what it takes after that of its update. Recomputed activations are of the backward
// pass.
//
// Thread rule: plain values.

#ifndef VRANK_TOOLS_REPORT_PEAK_CONTENTS_H_
#define VRANK_TOOLS_REPORT_PEAK_CONTENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/world/iteration_log.h"
#include "emulator/world/peak_blocks.h"
#include "graph/program/program.h"

namespace vrank::tools {

struct PeakContents {
  enum class Part {
    kBefore,  // of the first iteration; without iterations: all but backward passes
    kForward,
    kBackward,
    kUpdate,  // and whatever else follows the last backward pass
  };
  struct Amount {
    size_t blocks = 0;
    uint64_t bytes = 0;
  };
  struct Launch {
    std::string name;  // demangled: of the first work after the blocks were taken
    Amount amount;
  };
  struct Row {
    Part part = Part::kBefore;
    bool kept = false;  // from an earlier iteration than that of the peak
    Amount amount;
    std::vector<Launch> launches;  // most bytes first; unknown ones are left out
  };
  Amount all;
  std::optional<size_t> iteration;  // from 0; nullopt: in none
  std::vector<Row> rows;            // most bytes first
};

// nullopt: the program has no such allocator, or some of its blocks are not known.
// `iterations`: of the program, ascending.
std::optional<PeakContents> ContentsOfPeak(
    const emulator::PeakBlocks& blocks, const graph::Program& program,
    std::span<const graph::IterationBounds> iterations);

// "forward", ...: as in the JSON.
std::string_view NameOf(PeakContents::Part part);

// As the rest of a sentence that begins with "taken". `part`: a NameOf; another text
// is returned as it is.
std::string WhenTaken(std::string_view part, bool in_earlier_iteration);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_PEAK_CONTENTS_H_
