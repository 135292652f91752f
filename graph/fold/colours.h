// Which ranks have one timeline: colour refinement.
//
// Ranks begin with a colour for what they do alone: their program (those that do the
// same are one: program_content.h) and their work factor. Then each rank is recoloured
// by what it meets: for each of its communicators, in the program's numbering,
//   - what its operations cost, and the colours of its members, each once, in the order
//     of first appearance (a maximum does not notice that a stamp takes part twice,
//     but ties go to the earlier place, so the order is part of it);
//   - for operations with a root, on which of these colours this member's end depends
//     (collective_rendezvous.h);
//   - for transfers, the colour of the peer, the price and the credit.
// This is repeated until no colour splits. What then has one colour obeys the same
// equations over colours, and since the equations of a job have one solution, the same
// times and the same ledgers: folding changes nothing.
//
// A quotient communicator has one member per colour. Where it could not say who talks
// to whom (two peers of one colour, roots that are alike, a colour under two numbers),
// the members of that communicator are coloured apart by their index, and refinement
// goes on. In the worst case every rank has its own colour, which is the whole job.
//
// A slow rank or another program splits what it must: those who can tell.
//
// Thread rule: functions of their arguments.

#ifndef VRANK_GRAPH_FOLD_COLOURS_H_
#define VRANK_GRAPH_FOLD_COLOURS_H_

#include <cstdint>
#include <vector>

#include "graph/fold/job.h"
#include "graph/replay/network_model.h"

namespace vrank::graph {

struct Colouring {
  std::vector<uint32_t> colour;  // by place in ReplayJob::ranks
  uint32_t colours = 0;          // numbered by first appearance
};

// Every rank for itself: replays the job unfolded.
Colouring SeparateColours(const ReplayJob& job);
// What ranks are before anybody has looked at their communicators.
Colouring InitialColours(const ReplayJob& job);
// Ranks of one colour have one timeline. SeparateColours if the job is not foldable.
Colouring RefineColours(const ResolvedJob& job, const NetworkModel& network);
// Refinement from a given start; for tests of what happens when it begins wrongly.
Colouring RefineColours(const ResolvedJob& job, const NetworkModel& network,
                        Colouring initial);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FOLD_COLOURS_H_
