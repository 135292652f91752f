// How much of a GPU other ranks hold (protocol::AskMemory).
//
// The answer is about a time of the asking rank's clock, so it is known once every
// other rank that uses the GPU has come to that time. Where none of them can do so, all
// wait, and the oldest question is answered: whatever happens from there on starts
// after it. A rank that begins to share a GPU is answered only then, since its
// neighbours, which took memory of that GPU without a question until now, have to ask
// from that moment on, and where each of them is when all rest does not depend on real
// time.

#include <algorithm>
#include <tuple>
#include <utility>

#include "emulator/world/world.h"

namespace vrank::emulator {
namespace {

constexpr uint32_t kGpusThatAreShared = 32;  // SegmentHeader::shared_gpus

std::pair<int64_t, int32_t> PlaceOf(const RealRank& rank) {
  return {rank.memory_questions().front().clock.host_ns, rank.rank()};
}

}  // namespace

RealRank* World::WithOldestMemoryQuestion() const {
  RealRank* oldest = nullptr;
  for (const std::unique_ptr<RealRank>& rank : real_)
    if (!rank->memory_questions().empty() &&
        (oldest == nullptr || PlaceOf(*rank) < PlaceOf(*oldest)))
      oldest = rank.get();
  return oldest;
}

bool World::IsMemoryKnown(const RealRank& asker) const {
  const Question& question = asker.memory_questions().front().question;
  if (question.begins_sharing)
    return false;
  // A rank that comes to use the GPU later asks before it does; who has no context
  // there may be about to be told of one that begins now.
  const bool uses = gpu_memory_.Uses(asker.rank(), question.device);
  return std::all_of(real_.begin(), real_.end(), [&](const auto& other) {
    const int32_t rank = other->rank();
    return rank == asker.rank() || other->closed() ||
           !gpu_memory_.AreNeighbours(rank, asker.rank()) ||
           (uses && !gpu_memory_.Uses(rank, question.device)) ||
           std::pair(engine_->result(rank).end.ns, rank) > PlaceOf(asker);
  });
}

void World::NoteEnds(GpuMemory* memory) const {
  for (const std::unique_ptr<RealRank>& rank : real_)
    if (rank->closed())
      memory->End(rank->rank(), engine_->result(rank->rank()).end.ns);
}

GpuMemory World::MemoryOfGpus() const {
  GpuMemory memory = gpu_memory_;
  NoteEnds(&memory);
  return memory;
}

void World::AnswerMemory(RealRank* asker) {
  const RealRank::MemoryQuestion& asked = asker->memory_questions().front();
  const Question& question = asked.question;
  NoteEnds(&gpu_memory_);
  if (question.begins_sharing && question.device < kGpusThatAreShared)
    for (const std::unique_ptr<RealRank>& other : real_)
      if (gpu_memory_.AreNeighbours(other->rank(), asker->rank()))
        other->link().ShareGpu(question.device);
  ++answers_;
  asker->AnswerMemory(gpu_memory_.HeldByOthers(asker->rank(), question.device,
                                               asked.clock.host_ns, question.bytes));
}

void World::AnswerKnownMemory() {
  for (const std::unique_ptr<RealRank>& rank : real_)
    while (!rank->memory_questions().empty() && IsMemoryKnown(*rank))
      AnswerMemory(rank.get());
}

std::optional<schedule::OpenQuery> World::OldestQuery() const {
  const auto query = engine_->OldestQuery();
  const RealRank* const asker = WithOldestMemoryQuestion();
  if (asker == nullptr && !query.has_value())
    return std::nullopt;
  if (asker == nullptr ||
      (query.has_value() && std::pair(query->asked_ns, query->rank) < PlaceOf(*asker)))
    return schedule::OpenQuery{
        .asked_ns = query->asked_ns, .rank = query->rank, .meets = query->meets};
  return schedule::OpenQuery{
      .asked_ns = PlaceOf(*asker).first,
      .rank = asker->rank(),
      .about_memory = true,
      .needs_all_rest = asker->memory_questions().front().question.begins_sharing};
}

// The rank that queries memory issues nothing before the time of its query.
bool World::DecideOldestQuery(int64_t not_before_ns) {
  const auto query = engine_->OldestQuery();
  RealRank* const asker = WithOldestMemoryQuestion();
  if (asker == nullptr)
    return engine_->DecideOldestQuery(not_before_ns);
  if (query.has_value() && std::pair(query->asked_ns, query->rank) < PlaceOf(*asker))
    return engine_->DecideOldestQuery(std::min(not_before_ns, PlaceOf(*asker).first));
  AnswerMemory(asker);
  asker->TellAnswers();
  return true;
}

}  // namespace vrank::emulator
