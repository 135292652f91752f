// Counters of what an import could not keep; import_losses.def lists them.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_IMPORT_IMPORT_LOSSES_H_
#define VRANK_GRAPH_IMPORT_IMPORT_LOSSES_H_

#include <cstdint>
#include <map>

namespace vrank::graph {

enum class ImportLoss : uint8_t {
#define VRANK_IMPORT_LOSS(id, name, meaning) id,
#include "graph/import/import_losses.def"
#undef VRANK_IMPORT_LOSS
};

using ImportLosses = std::map<ImportLoss, uint64_t>;

inline const char* Name(ImportLoss loss) {
  static constexpr const char* kNames[] = {
#define VRANK_IMPORT_LOSS(id, name, meaning) name,
#include "graph/import/import_losses.def"
#undef VRANK_IMPORT_LOSS
  };
  return kNames[static_cast<size_t>(loss)];
}

inline const char* Meaning(ImportLoss loss) {
  static constexpr const char* kMeanings[] = {
#define VRANK_IMPORT_LOSS(id, name, meaning) meaning,
#include "graph/import/import_losses.def"
#undef VRANK_IMPORT_LOSS
  };
  return kMeanings[static_cast<size_t>(loss)];
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_IMPORT_LOSSES_H_
