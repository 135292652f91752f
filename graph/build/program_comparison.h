// Whether two programs do the same, whatever they call things.
//
// Lanes, tokens, communicators and names are a program's own numbers, so programs from
// two sources (decoded from a live run, built from its trace) are compared up to
// renumbering: a lane is known from its first op until it is released, a token from
// each of its recordings on. Ops that only pass host time (kHost, kAskClock) count as
// part of the next op; ops of helper threads count for nothing.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_BUILD_PROGRAM_COMPARISON_H_
#define VRANK_GRAPH_BUILD_PROGRAM_COMPARISON_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graph/program/program.h"

namespace vrank::graph {

// A rank's seat in one of its communicators.
struct Seat {
  uint32_t index = 0, size = 1;
};
using Seats = std::map<uint32_t, Seat>;  // by the rank's own number

struct ProgramComparison {
  bool host_times = true;
  bool work_times = true;
  bool sources = false;  // of work, and of host times
  // Whose memory it is. CUPTI does not tell a library's workspace from the program's.
  bool memory_owners = true;
  // Queries that found what they asked for. They pass host time and nothing else, and
  // CUPTI does not show those of cudaEventElapsedTime.
  bool answered_queries = true;
  // Host time that was measured (Source::kMeasured), which differs between runs.
  bool measured_host_times = true;
  // Set where the programs are those of two ranks: their seats. Each then states its
  // own ids, colours and keys, and a peer is the same one as far from the own seat, as
  // for a rank that follows another one (PeerIndex).
  const Seats* a_seats = nullptr;
  const Seats* b_seats = nullptr;
  // What the two are called where they differ.
  std::string_view a_name = "the first program", b_name = "the second";
};

// The first op in which they differ, both sides in words; empty where there is none.
std::string FirstDifference(const Program& a, const Program& b,
                            const ProgramComparison& compare = {});

// What a program does in all, to tell by how much two of them differ.
struct ProgramTotals {
  int64_t host_ns = 0;  // of the host, waits left out
  int64_t work_ns = 0;  // of kernels, copies and memsets
  uint64_t ops = 0, work = 0, collectives = 0, host_waits = 0;
};
ProgramTotals TotalsOf(const Program& program);
// "+3 waits of the host, +12.4 us of host time": what `of` has more than `than`. Empty:
// the sums are equal.
std::string DescribeDifference(const ProgramTotals& of, const ProgramTotals& than);

// What one op does, in words: "all_reduce of 512 float32 on communicator 2, lane 3".
std::string DescribeAction(const Program& program, const Op& op);
// The same, with the host time before it.
std::string Describe(const Program& program, const Op& op);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_PROGRAM_COMPARISON_H_
