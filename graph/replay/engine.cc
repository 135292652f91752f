// The engine with the real step rule.

#include "graph/replay/engine.h"

#include "graph/replay/engine_impl.h"
#include "graph/replay/step.h"

namespace vrank::graph {

class Engine::Impl : public EngineImpl<Step> {
  using EngineImpl::EngineImpl;
};

Engine::Engine(const EngineOptions& options, const NetworkModel* network,
               Membership* membership, EngineObserver* observer)
    : impl_(std::make_unique<Impl>(options, network, membership, observer)) {}
Engine::~Engine() = default;

void Engine::AddRank(int32_t world_rank, Program* program, const RankOptions& options) {
  impl_->AddRank(world_rank, program, options);
}
void Engine::AddAbsentRank(int32_t world_rank) {
  impl_->AddAbsentRank(world_rank);
}
void Engine::AddAlias(int32_t alias, int32_t world_rank) {
  impl_->AddAlias(alias, world_rank);
}
uint64_t Engine::ObserveTimeline(int32_t world_rank, TimelineObserver* observer) {
  return impl_->ObserveTimeline(world_rank, observer);
}
void Engine::ProgramChanged(const Program* program) {
  impl_->ProgramChanged(program);
}
absl::Status Engine::Run() {
  return impl_->Run();
}
absl::StatusOr<bool> Engine::RunFor(uint64_t turns) {
  return impl_->RunFor(turns);
}
std::optional<Engine::OpenQuery> Engine::OldestQuery() const {
  return impl_->OldestQuery();
}
void Engine::EndHostFunction(int32_t rank, uint64_t op, int64_t duration_ns) {
  impl_->EndHostFunction(rank, op, duration_ns);
}

bool Engine::DecideOldestQuery(int64_t not_before_ns) {
  return impl_->DecideOldestQuery(not_before_ns);
}
bool Engine::LetOtherThreadsPass() {
  return impl_->LetOtherThreadsPass();
}
bool Engine::EndAborted(int64_t before_ns) {
  return impl_->EndAborted(before_ns);
}
void Engine::LoseRank(int32_t world_rank) {
  impl_->LoseRank(world_rank);
}
bool Engine::Finished() const {
  return impl_->Finished();
}
absl::Status Engine::CheckTransfersMatched() const {
  return impl_->CheckTransfersMatched();
}
std::vector<std::string> Engine::DescribeBlocked(size_t limit) const {
  return impl_->DescribeBlocked(limit);
}
RankResult Engine::result(int32_t world_rank) const {
  return impl_->result(world_rank);
}
std::optional<Engine::LeadersCommunicator> Engine::CommunicatorOfLeader(
    int32_t follower, const std::string& identity) const {
  return impl_->CommunicatorOfLeader(follower, identity);
}
uint64_t Engine::ops() const {
  return impl_->ops();
}
uint64_t Engine::Unresolved(int32_t world_rank) const {
  return impl_->Unresolved(world_rank);
}
size_t Engine::played_ranks() const {
  return impl_->played_ranks();
}
uint64_t Engine::assumed_arrivals() const {
  return impl_->assumed_arrivals();
}

}  // namespace vrank::graph
