// Storage of a rank's ops; see program.h.

#include "graph/program/program.h"

#include <algorithm>

namespace vrank::graph {

Program::Program(std::span<const Op> ops, Details details,
                 std::shared_ptr<const void> keep_alive)
    : mapped_(ops.data()),
      keep_alive_(std::move(keep_alive)),
      retain_(true),
      closed_(true),
      size_(ops.size()),
      details_(std::move(details)) {}

void Program::Append(const Op& op) {
  if (size_ % kChunkOps == 0) {
    chunks_.push_back(std::make_unique<Chunk>());
    // Reserved in full: readers keep pointers into a chunk while it grows.
    chunks_.back()->reserve(kChunkOps);
  }
  chunks_.back()->push_back(op);
  ++size_;
}

const Op& Program::op(uint64_t index) const {
  if (mapped_ != nullptr)
    return mapped_[index];
  return (*chunks_[index / kChunkOps - first_chunk_])[index % kChunkOps];
}

uint64_t Program::ChunkEnd(uint64_t index) const {
  if (mapped_ != nullptr)
    return size_;
  return std::min(size_, (index / kChunkOps + 1) * kChunkOps);
}

void Program::SetAnswer(uint64_t index, uint32_t answer) {
  (*chunks_[index / kChunkOps - first_chunk_])[index % kChunkOps].b = answer;
}

void Program::SetDuration(uint64_t index, int64_t duration_ns) {
  Op& op = (*chunks_[index / kChunkOps - first_chunk_])[index % kChunkOps];
  op.b = 0;
  op.value = duration_ns;
}

void Program::SetFromHelper(uint64_t index) {
  Op& op = (*chunks_[index / kChunkOps - first_chunk_])[index % kChunkOps];
  op.from_helper = 1;
  if (op.kind == OpKind::kPollToken)
    op.kind = OpKind::kHostWaitToken;
  else if (op.kind == OpKind::kPollLane)
    op.kind = OpKind::kHostWaitLane;
}

uint32_t Program::AddCollective(const CollectiveCall& call) {
  const auto [it, added] = collective_index_.try_emplace(
      call, static_cast<uint32_t>(details_.collectives.size()));
  if (added)
    details_.collectives.push_back(call);
  return it->second;
}

uint32_t Program::AddTransfers(std::vector<Transfer> transfers) {
  std::vector<std::pair<uint64_t, uint64_t>> key;
  key.reserve(transfers.size());
  for (const Transfer& transfer : transfers) {
    key.emplace_back(transfer.bytes, uint64_t{transfer.peer} << 32 | transfer.is_send);
  }
  const auto [it, added] = transfers_index_.try_emplace(
      std::move(key), static_cast<uint32_t>(details_.transfer_groups.size()));
  if (added)
    details_.transfer_groups.push_back(std::move(transfers));
  return it->second;
}

uint32_t Program::AddCreation(const Creation& creation) {
  if (!free_creations_.empty()) {
    const uint32_t index = free_creations_.back();
    free_creations_.pop_back();
    details_.creations[index] = creation;
    return index;
  }
  details_.creations.push_back(creation);
  return static_cast<uint32_t>(details_.creations.size() - 1);
}

void Program::CreationDone(uint32_t creation) {
  if (retain_)
    return;
  creation_done_.resize(details_.creations.size());
  if (++creation_done_[creation] < readers_.size())
    return;
  creation_done_[creation] = 0;
  free_creations_.push_back(creation);
}

uint32_t Program::AddName(std::string name) {
  if (name.empty())
    return 0;
  const auto [it, added] =
      name_index_.try_emplace(name, static_cast<uint32_t>(details_.names.size()));
  if (added)
    details_.names.push_back(std::move(name));
  return it->second;
}

size_t Program::AddReader() {
  at_lowest_ = lowest_reader_ == Released() ? at_lowest_ + 1 : 1;
  lowest_reader_ = Released();
  readers_.push_back(lowest_reader_);
  return readers_.size() - 1;
}

// All readers are looked at once per place that the slowest one leaves, not each time.
void Program::ReaderPassed(size_t reader, uint64_t index) {
  if (readers_[reader] != lowest_reader_) {
    readers_[reader] = index;
    return;
  }
  if (index != lowest_reader_) {
    readers_[reader] = index;
    if (--at_lowest_ != 0)
      return;
    lowest_reader_ = *std::min_element(readers_.begin(), readers_.end());
    at_lowest_ = static_cast<size_t>(
        std::count(readers_.begin(), readers_.end(), lowest_reader_));
  }
  if (retain_)
    return;
  // The last chunk stays while it is being written.
  while (chunks_.size() > 1 && (first_chunk_ + 1) * kChunkOps <= lowest_reader_) {
    chunks_.pop_front();
    ++first_chunk_;
  }
}

void Program::ReaderJoins(size_t reader, size_t other) {
  readers_[reader] = readers_[other];
  if (readers_[reader] == lowest_reader_)
    ++at_lowest_;
}

}  // namespace vrank::graph
