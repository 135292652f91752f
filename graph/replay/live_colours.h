// Which ranks of a running engine have one timeline from here on.
//
// As in graph/fold/colours.h, but for programs that are still being written: what a
// program will do with a communicator is not known, so colours must fit whatever may
// come of operations that treat their members alike. Ranks begin with a colour for the
// state they are in (and the program that they read). Then each is recoloured by its
// communicators, under the numbers of its program: by the colours that meet there, each
// once, in the order of first appearance. This is repeated until no colour splits.
//
// Members of a communicator whose operations do not treat them alike (transfers, roots)
// are told apart by their index. So are those of one in which a colour goes by two
// numbers.
//
// Communicators that look alike are a family: one of them can be played for all.
//
// Thread rule: functions of their arguments.

#ifndef VRANK_GRAPH_REPLAY_LIVE_COLOURS_H_
#define VRANK_GRAPH_REPLAY_LIVE_COLOURS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vrank::graph {

struct LiveCommunicator {
  std::vector<uint32_t> ranks;    // of each member; kNone: absent
  std::vector<uint32_t> numbers;  // by which each of them knows it
  bool apart = false;             // members are told apart by their index
  std::string condition;          // what else must be equal: prices, what is under way
};

struct LiveColouring {
  std::vector<uint32_t> colour;  // by rank
  uint32_t colours = 0;
  std::vector<uint32_t> family;  // by communicator; numbered by first appearance
  uint32_t families = 0;
};

// `initial`: by rank. Colours, too, are numbered by first appearance.
LiveColouring RefineLiveColours(const std::vector<uint32_t>& initial,
                                std::vector<LiveCommunicator> communicators);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LIVE_COLOURS_H_
