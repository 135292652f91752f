// Writes the program of a recorded rank: costs and order, no times.
//
// The host's time between two ops is what it recorded there, less its waits. Work on a
// stream is a kWork op; a launch latency beyond the job's shortest is host time on a
// lane of its own that the stream waits for, so that it passes beside what the stream
// is still busy with; a gap on a busy stream is host time on the stream. A wait, of a
// stream or of the host, is for a token that is recorded right behind the awaited work.
// A kernel that communicates and cannot be matched is work whose name states its
// operation; a send or receive first synchronises with its peers (kTransfers).
// Annotations of the main thread are ranges. Memory is what PyTorch's allocator has
// reserved, where the recording states it.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_PROGRAM_WRITER_H_
#define VRANK_GRAPH_IMPORT_PROGRAM_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "graph/import/communication_match.h"
#include "graph/import/dependencies.h"
#include "graph/import/host_order.h"
#include "graph/import/imported_run.h"
#include "graph/import/recording.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

struct WrittenRank {
  std::unique_ptr<Program> program;
  RecordedRank recorded;
  uint64_t not_nested = 0;  // HostAccount::not_nested
  RankMemory memory;
};

struct WriterInput {
  int32_t rank = 0, world_size = 1;
  int64_t job_begin_ns = 0;  // on the recordings' clock
  int64_t latency_ns = 0;    // EngineOptions::launch_latency
  const Recording* recording = nullptr;
  const HostOrder* order = nullptr;
  const Dependencies* dependencies = nullptr;
  const CommunicationMatch* match = nullptr;
  const std::map<uint32_t, std::string>* operations = nullptr;  // CommunicationUses
  // Names of steps that are iterations; empty: all are.
  const std::set<std::string>* steps = nullptr;
};

WrittenRank WriteProgram(const WriterInput& input);

// The program of a member that was not recorded: it creates communicators, no more.
std::unique_ptr<Program> WriteAbsentProgram(int32_t rank, int32_t world_size,
                                            const CommunicationMatch& match);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_PROGRAM_WRITER_H_
