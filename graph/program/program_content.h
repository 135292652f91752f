// Which programs do the same: a rank that was traced beside its leader does what its
// followers do, although its program was read from another slice.
//
// Thread rule: functions of their arguments.

#ifndef VRANK_GRAPH_PROGRAM_PROGRAM_CONTENT_H_
#define VRANK_GRAPH_PROGRAM_PROGRAM_CONTENT_H_

#include <cstdint>
#include <map>

#include "graph/program/program.h"

namespace vrank::graph {

// Whether a rank does the same with either, given the communicators that come of it:
// ops, calls, transfers and names are equal, and creations up to what only says who
// belongs to whom (colour, key, index, unique id).
// REQUIRES: both are closed.
bool DoTheSame(const Program& a, const Program& b);

// Gives programs that do the same one number. Programs outlive it.
class ProgramNumbering {
 public:
  uint32_t operator()(const Program* program);

 private:
  std::map<const Program*, uint32_t> known_;
  std::multimap<uint64_t, const Program*> firsts_;  // of each number, by a digest
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_PROGRAM_PROGRAM_CONTENT_H_
