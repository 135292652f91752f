// Numbers as text, for comparing what two parts of the engine are at.
//
// Thread rule: functions of their arguments.

#ifndef VRANK_GRAPH_REPLAY_CONDITION_H_
#define VRANK_GRAPH_REPLAY_CONDITION_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "graph/replay/network_model.h"
#include "graph/replay/stamp.h"

namespace vrank::graph {

inline void AppendNumbers(std::string* text, std::initializer_list<uint64_t> numbers) {
  for (const uint64_t number : numbers)
    text->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

inline void AppendStamp(std::string* text, const Stamp& stamp) {
  text->append(reinterpret_cast<const char*>(&stamp), sizeof(stamp));
}

inline void AppendCost(std::string* text, const Cost& cost) {
  AppendNumbers(text, {static_cast<uint64_t>(cost.duration.nanoseconds()),
                       static_cast<uint64_t>(cost.source)});
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_CONDITION_H_
