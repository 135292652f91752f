// How many communicators of a name each rank has made: the names of later ones count.
//
// Thread rule: one thread. Ranks are world ranks. No errors.

#ifndef VRANK_GRAPH_MEMBERSHIP_GROUP_REPEATS_H_
#define VRANK_GRAPH_MEMBERSHIP_GROUP_REPEATS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace vrank::graph {

class GroupRepeats {
 public:
  // How many the rank had made before this one.
  uint32_t Next(int32_t rank, const std::string& group) {
    return made_[{rank, group}]++;
  }

 private:
  std::map<std::pair<int32_t, std::string>, uint32_t> made_;
};

// "tp@4", "tp@4#1".
inline std::string RepeatedName(const std::string& group, uint32_t repeat) {
  return repeat == 0 ? group : fmt::format("{}#{}", group, repeat);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_GROUP_REPEATS_H_
