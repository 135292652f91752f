// A rank's ops, in order; possibly still being written.
//
// Stored in chunks. A program that is not retained gives a chunk back once every reader
// has passed it, so a live run of any length stays in bounded memory. A program from a
// file is not stored at all: its ops are read where the file is mapped.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_PROGRAM_PROGRAM_H_
#define VRANK_GRAPH_PROGRAM_PROGRAM_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/schema/op.h"

namespace vrank::graph {

// Op::b of a kHostFunc of a real rank that has not returned yet.
inline constexpr uint32_t kDurationUnknown = 1;
// Op::b of a kHostWaitToken or kHostWaitLane of a real rank: the thread's next op is
// another wait of the same call.
inline constexpr uint32_t kMoreWaits = 1;
// Op::value of a kQueryToken or kQueryLane of a real rank: a polling loop, which issues
// nothing between its queries.
inline constexpr int64_t kAsksAgain = 1;

class Program {
 public:
  static constexpr size_t kChunkOps = 4096;

  explicit Program(bool retain) : retain_(retain) {}
  // A closed program over ops that lie elsewhere. `keep_alive` owns that memory.
  // REQUIRES: every index in `ops` is one of `details`.
  Program(std::span<const Op> ops, Details details,
          std::shared_ptr<const void> keep_alive);

  // REQUIRES: not closed.
  void Append(const Op& op);
  void Close() { closed_ = true; }
  bool closed() const { return closed_; }
  uint64_t size() const { return size_; }  // ops ever appended

  // REQUIRES: Released() <= index < size(). Valid until that chunk is released.
  const Op& op(uint64_t index) const;
  // Ops [index, ChunkEnd(index)) are contiguous in memory, from &op(index).
  uint64_t ChunkEnd(uint64_t index) const;

  // Fills in the answer of a query (Op::b) that was appended as kAnswerUnknown.
  // REQUIRES: as op(), and that the program's ops are its own.
  void SetAnswer(uint64_t index, uint32_t answer);

  // Fills in how long a host function took that was appended as kDurationUnknown.
  // REQUIRES: as SetAnswer().
  void SetDuration(uint64_t index, int64_t duration_ns);

  // A wait, poll or release that was appended as the host's holds up the thread alone
  // that asked. REQUIRES: as SetAnswer().
  void SetFromHelper(uint64_t index);

  // Indices for Op::b. Equal calls share one index.
  uint32_t AddCollective(const CollectiveCall& call);
  uint32_t AddTransfers(std::vector<Transfer> transfers);
  // Of a program that is not retained, the index of a call that all readers have done
  // with is given to a later one.
  uint32_t AddCreation(const Creation& creation);
  // One of the readers needs the call no more.
  void CreationDone(uint32_t creation);
  uint32_t AddName(std::string name);
  const Details& details() const { return details_; }

  // Readers: each states from which op on it still reads. Chunks below the lowest are
  // given back unless retained.
  size_t AddReader();
  void ReaderPassed(size_t reader, uint64_t index);
  // It reads on from where another one is. REQUIRES: it has passed that.
  void ReaderJoins(size_t reader, size_t other);
  // Ops that the slowest reader has not got to; without readers: all that are kept. Of
  // the chunk that a reader is in, all counts.
  uint64_t Unread() const { return size_ - lowest_reader_; }
  uint64_t Released() const { return first_chunk_ * kChunkOps; }

 private:
  using Chunk = std::vector<Op>;

  const Op* mapped_ = nullptr;  // ops that lie elsewhere
  std::shared_ptr<const void> keep_alive_;
  bool retain_;
  bool closed_ = false;
  uint64_t size_ = 0;
  uint64_t first_chunk_ = 0;
  std::deque<std::unique_ptr<Chunk>> chunks_;
  std::vector<uint64_t> readers_;
  uint64_t lowest_reader_ = 0;
  size_t at_lowest_ = 0;  // readers there
  Details details_;
  std::vector<uint32_t> creation_done_;  // by creation: how many readers
  std::vector<uint32_t> free_creations_;
  std::map<CollectiveCall, uint32_t> collective_index_;
  std::map<std::vector<std::pair<uint64_t, uint64_t>>, uint32_t> transfers_index_;
  std::map<std::string, uint32_t> name_index_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_PROGRAM_PROGRAM_H_
