// What the kernel model asks first: times recorded on a real GPU beat any model.
//
// Thread rule: const methods from any thread.

#ifndef VRANK_GRAPH_MODELS_RECORDED_TIMES_H_
#define VRANK_GRAPH_MODELS_RECORDED_TIMES_H_

#include <cstdint>
#include <optional>
#include <string>

namespace vrank::graph {

class RecordedTimes {
 public:
  virtual ~RecordedTimes() = default;
  // How long this very launch took, in ns; nothing where it was never seen.
  virtual std::optional<int64_t> Find(const std::string& mangled,
                                      const uint32_t (&grid)[3],
                                      const uint32_t (&block)[3],
                                      uint32_t shared_bytes) const = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_RECORDED_TIMES_H_
