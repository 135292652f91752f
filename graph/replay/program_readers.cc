// See program_readers.h.

#include "graph/replay/program_readers.h"

#include <algorithm>

namespace vrank::graph {

void ProgramReaders::Add(RankState& r, Program* program) {
  const auto [it, added] =
      index_of_.try_emplace(program, static_cast<uint32_t>(programs_.size()));
  if (added)
    programs_.emplace_back().program = program;
  programs_[it->second].ranks.push_back(r.index);
  r.program = program;
  r.program_index = it->second;
  r.reader = program->AddReader();
}

void ProgramReaders::Changed(const Program* program) {
  const auto it = index_of_.find(program);
  if (it != index_of_.end())
    WakeStarved(it->second);
}

void ProgramReaders::WakeStarved(uint32_t program) {
  std::vector<uint32_t>& starved = programs_[program].starved;
  for (const uint32_t rank : starved)
    worklist_.Wake(ranks_[rank]);
  starved.clear();
}

void ProgramReaders::Starve(RankState& r) {
  r.blocked = Blocked::kProgram;
  programs_[r.program_index].starved.push_back(r.index);
}

bool ProgramReaders::NextOps(RankState& r) {
  if (r.cursor % Program::kChunkOps == 0)
    r.program->ReaderPassed(r.reader, r.cursor);
  const uint64_t horizon = programs_[r.program_index].horizon;
  if (r.cursor == r.program->size() || r.cursor >= horizon) {
    if (r.cursor == r.program->size() && r.program->closed())
      r.blocked = Blocked::kFinished;
    else
      Starve(r);
    return false;
  }
  r.next_op = &r.program->op(r.cursor);
  r.chunk_end = std::min(r.program->ChunkEnd(r.cursor), horizon);
  return true;
}

void ProgramReaders::ReleaseNumber(const RankState& r, uint32_t number) {
  if (number < CommunicatorTable::kFirstNumbers)
    return;
  Shared& shared = programs_[r.program_index];
  size_t& released = shared.released[number];
  if (++released < shared.ranks.size())
    return;
  shared.released.erase(number);
  for (const uint32_t rank : shared.ranks)
    ranks_[rank].communicators.Forget(number);
}

bool ProgramReaders::IsStoppedAtHorizon(uint32_t program) const {
  const Shared& shared = programs_[program];
  return shared.horizon < shared.program->size() &&
         std::any_of(shared.starved.begin(), shared.starved.end(), [&](uint32_t rank) {
           return ranks_[rank].cursor >= shared.horizon;
         });
}

void ProgramReaders::DropPlayed() {
  for (Shared& shared : programs_)
    std::erase_if(shared.starved, [this](uint32_t rank) {
      return ranks_[rank].blocked == Blocked::kPlayed;
    });
}

}  // namespace vrank::graph
