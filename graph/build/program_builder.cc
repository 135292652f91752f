#include "graph/build/program_builder.h"

#include "base/status_macros.h"
#include "graph/build/translation.h"

namespace vrank::graph {

const char* Name(BuildLoss loss) {
  static constexpr const char* kNames[] = {
#define VRANK_BUILD_LOSS(id, name, meaning) name,
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
  };
  return kNames[static_cast<size_t>(loss)];
}

const char* Meaning(BuildLoss loss) {
  static constexpr const char* kMeanings[] = {
#define VRANK_BUILD_LOSS(id, name, meaning) meaning,
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
  };
  return kMeanings[static_cast<size_t>(loss)];
}

absl::StatusOr<BuiltProgram> BuildProgram(const RankTrace& trace) {
  RETURN_IF_ERROR(CheckTrace(trace));
  return Translation(trace).Run();
}

}  // namespace vrank::graph
