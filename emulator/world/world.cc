#include "emulator/world/world.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/decision_log.h"
#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/membership/deciding_rank.h"

namespace vrank::emulator {
namespace {

graph::EngineOptions EngineOptionsOf(const WorldOptions& options) {
  graph::EngineOptions engine = options.engine;
  engine.fold = options.fold;
  engine.tell_virtual_ends = options.results.collectives || options.results.member_ends;
  return engine;
}

}  // namespace

World::World(WorldOptions options, const graph::NetworkModel* network,
             graph::Membership* membership, WorkPricer* pricer,
             std::set<int32_t> real_ranks)
    : options_(std::move(options)),
      network_(network),
      pricer_(pricer),
      payloads_(
          options_.payloads != nullptr
              ? options_.payloads
              : std::make_shared<PayloadHub>(options_.hub, std::move(real_ranks))),
      shared_gpus_(options_.ranks_per_node),
      results_(options_.results),
      engine_(std::make_unique<graph::Engine>(EngineOptionsOf(options_), network,
                                              membership,
                                              static_cast<EngineObserver*>(this))),
      gpu_memory_(options_.ranks_per_node, options_.gpus_per_node) {
  payloads_->SetLeaderLookup([this](int32_t rank, const std::string& communicator)
                                 -> std::optional<std::pair<int32_t, uint32_t>> {
    const auto found = engine_->CommunicatorOfLeader(rank, communicator);
    if (!found.has_value())
      return std::nullopt;
    return std::pair(found->leader, found->number);
  });
}

// The transport may outlive it.
World::~World() {
  payloads_->SetLeaderLookup(nullptr);
}

graph::RankOptions World::OptionsOf(int32_t rank) const {
  graph::RankOptions options;
  const auto factor = options_.work_factors.find(rank);
  if (factor != options_.work_factors.end()) {
    options.work_numerator = factor->second.numerator;
    options.work_denominator = factor->second.denominator;
  }
  return options;
}

RealRank* World::AddReal(int32_t rank, GuestLink* link) {
  real_.push_back(
      std::make_unique<RealRank>(rank, link, pricer_, static_cast<DecoderSink*>(this),
                                 options_.host_time, options_.retain_programs));
  RealRank* added = real_.back().get();
  if (by_rank_.size() <= static_cast<size_t>(rank))
    by_rank_.resize(static_cast<size_t>(rank) + 1, nullptr);
  by_rank_[static_cast<size_t>(rank)] = added;
  graph::RankOptions options = OptionsOf(rank);
  options.real = true;
  engine_->AddRank(rank, &added->program(), options);
  results_.AddRank(rank, &added->program(), true);
  added->LogIterations(engine_.get(), [this](const std::string& name) {
    return options_.results.iteration_pattern.Matches(name);
  });
  gpu_memory_.AddReal(rank);
  return added;
}

void World::AddFollower(int32_t rank, int32_t leader) {
  graph::RankOptions options = OptionsOf(rank);
  options.follower = true;
  options.leader = leader;
  followers_.insert(rank);
  graph::Program* program = &Find(leader)->program();
  engine_->AddRank(rank, program, options);
  results_.AddRank(rank, program, false);
  gpu_memory_.AddFollower(rank, leader);
}

void World::AddRecorded(int32_t rank, graph::Program* program, int32_t leader) {
  graph::RankOptions options = OptionsOf(rank);
  options.follower = leader >= 0;
  options.leader = leader;
  engine_->AddRank(rank, program, options);
  results_.AddRank(rank, program, false);
  gpu_memory_.AddOther(rank);
}

void World::AddAbsent(int32_t rank) {
  engine_->AddAbsentRank(rank);
  gpu_memory_.AddOther(rank);
}

RealRank* World::Find(int32_t rank) {
  const auto index = static_cast<size_t>(rank);
  return index < by_rank_.size() ? by_rank_[index] : nullptr;
}

namespace {

// Waits in the emulator, and nothing that it wrote is unread. Without a question it is
// on its way out: its issuing threads have ended.
bool IsBlocked(const RealRank& rank) {
  return rank.closed() || (rank.has_questions() && rank.link().Blocked());
}

}  // namespace

bool World::IsAhead(const RealRank& rank) const {
  return !rank.closed() && engine_->Unresolved(rank.rank()) > options_.throttle_ops;
}

absl::StatusOr<World::Moved> World::Advance() {
  Moved moved;
  const uint64_t answers_before = answers_;
  // Where all others wait or are ahead, too, what one of these writes is what they all
  // wait for.
  const bool throttle = !std::all_of(real_.begin(), real_.end(), [this](const auto& r) {
    return IsBlocked(*r) || IsAhead(*r);
  });
  for (const std::unique_ptr<RealRank>& rank : real_) {
    if (rank->closed() || (throttle && IsAhead(*rank)))
      continue;
    const uint64_t host_records = rank->decoder().host_records();
    const uint64_t queries = rank->decoder().queries();
    ASSIGN_OR_RETURN(const uint64_t records, rank->Drain(options_.records_per_turn));
    if (records == 0)
      continue;
    moved.records += records;
    moved.host_records += rank->decoder().host_records() - host_records;
    moved.queries += rank->decoder().queries() - queries;
    moved.more |= records == options_.records_per_turn;
    engine_->ProgramChanged(&rank->program());
  }
  absl::StatusOr<bool> more = engine_->RunFor(options_.turns_at_once);
  if (!more.ok()) {
    absl::Status error = std::move(more).status();
    // Of calls that do not fit together.
    if (absl::IsInvalidArgument(error))
      AttachUnknownSenders(std::nullopt, &error);
    return error;
  }
  moved.more |= *more;
  AnswerKnownMemory();
  for (const std::unique_ptr<RealRank>& rank : real_) {
    if (!rank->waits_for_bytes())
      continue;
    ASSIGN_OR_RETURN(const uint64_t fetches, rank->AnswerFetches(payloads_.get()));
    answers_ += fetches;
    moved.more |= rank->awaits_transport();
  }
  for (const std::unique_ptr<RealRank>& rank : real_)
    rank->TellAnswers();
  for (const std::unique_ptr<RealRank>& rank : real_)
    if (ActivityPublisher* const publisher = rank->publisher()) [[unlikely]]
      answers_ += publisher->Flush();
  moved.answers = answers_ - answers_before;
  RETURN_IF_ERROR(untold_);
  return moved;
}

void World::CloseRank(RealRank* rank) {
  rank->Close();
  engine_->ProgramChanged(&rank->program());
}

bool World::AllBlocked() const {
  return std::all_of(real_.begin(), real_.end(),
                     [](const auto& rank) { return IsBlocked(*rank); });
}

std::vector<std::string> World::DescribeBlocked(size_t limit) const {
  std::vector<std::string> lines = engine_->DescribeBlocked(limit);
  for (const std::unique_ptr<RealRank>& rank : real_)
    if (rank->waits_for_bytes() && lines.size() < limit)
      lines.push_back(
          fmt::format("rank {} waits for bytes that another rank has not contributed",
                      rank->rank()));
  return lines;
}

void World::AttachUnknownSenders(std::optional<int32_t> of, absl::Status* error) const {
  std::set<int32_t> senders;
  for (const std::unique_ptr<RealRank>& rank : real_)
    if (!of.has_value() || rank->rank() == *of)
      senders.insert(rank->unknown_senders().begin(), rank->unknown_senders().end());
  if (!senders.empty() && senders.size() <= graph::kMostDecidingRanks &&
      graph::DecidingRanksOf(*error).empty())
    graph::AttachDecidingRanks({senders.begin(), senders.end()}, error);
}

World::Losses World::TotalLosses(std::optional<int32_t> of) const {
  Losses losses;
  uint64_t mirrored = 0, recorded = 0;
  for (const auto& [rank, counted] : losses_)
    for (const auto& [key, amount] : counted)
      if (!of.has_value() || rank == *of)
        losses[key] += amount;
  for (const std::unique_ptr<RealRank>& rank : real_) {
    if (of.has_value() && rank->rank() != *of)
      continue;
    mirrored += rank->mirrored_bytes();
    recorded += rank->recorded_bytes();
  }
  if (recorded > 0)
    losses[{static_cast<uint32_t>(LossId::kMirroredBytes), "recorded values"}] +=
        recorded;
  for (const GpuMemory::Stray& stray : gpu_memory_.Strays())
    if (!of.has_value() || stray.rank == *of)
      losses[{static_cast<uint32_t>(LossId::kOtherRanksGpus),
              fmt::format("rank {} on GPU {}", stray.rank, stray.device)}] +=
          static_cast<uint64_t>(stray.peak_bytes);
  if (mirrored > 0)
    losses[{static_cast<uint32_t>(LossId::kMirroredBytes), ""}] += mirrored;
  return losses;
}

// ---------------------------------------------------------------------------------
// The engine's answers
// ---------------------------------------------------------------------------------

void World::OnHostAnswer(int32_t rank, uint64_t op, graph::Stamp host, graph::Stamp end,
                         uint64_t retired_launches, uint64_t value) {
  ++answers_;
  Find(rank)->Answer(
      op, AnswerValues{.host_ns = host.ns,
                       .end_ns = end.ns,
                       .complete = true,
                       .retired_launches = retired_launches,
                       .value = shared_gpus_.Take(rank, op).value_or(value)});
}

void World::OnQueryAnswer(int32_t rank, uint64_t op, graph::Stamp host, bool complete,
                          graph::Stamp end, uint64_t retired_launches) {
  ++answers_;
  Find(rank)->Answer(op, AnswerValues{.host_ns = host.ns,
                                      .end_ns = end.ns,
                                      .complete = complete,
                                      .retired_launches = retired_launches});
}

void World::OnHostPassed(int32_t rank, uint64_t op) {
  Find(rank)->PassQuestion(op);
}

void World::OnHostFuncStart(int32_t rank, uint64_t op, graph::Stamp start) {
  ++answers_;
  RealRank* const runs = Find(rank);
  runs->link().FunctionBegins();
  runs->Answer(op,
               AnswerValues{.host_ns = start.ns, .end_ns = start.ns, .complete = true});
}

void World::OnHostFuncEnd(int32_t rank, uint64_t op, int64_t duration_ns) {
  Find(rank)->link().FunctionEnds();
  engine_->EndHostFunction(rank, op, duration_ns);
}

void World::OnTokenEnd(int32_t rank, uint32_t token, uint32_t generation,
                       graph::Stamp end) {
  Find(rank)->link().Publish(token, generation, end.ns);
}

void World::OnMemory(int32_t rank, const graph::Op& op, int64_t host_ns) {
  gpu_memory_.Change(rank, op, host_ns);
}

void World::OnRange(int32_t rank, uint32_t name, bool begin, graph::Stamp host) {
  results_.OnRange(rank, name, begin, host);
}

void World::OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                            uint32_t member, int32_t rank,
                            const graph::CollectiveCall& call, graph::Stamp arrival,
                            graph::Stamp end) {
  results_.OnCollectiveEnd(communicator, sequence, member, rank, call, arrival, end);
}

void World::OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                          uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                          graph::Stamp arrival, graph::Stamp end) {
  results_.OnTransferEnd(communicator, from, to, sequence, bytes, is_send, rank,
                         arrival, end);
}

bool World::AreOneClass(std::span<const int32_t> members) const {
  return !options_.classes.empty() &&
         std::all_of(members.begin(), members.end(), [&](int32_t rank) {
           return options_.classes[static_cast<size_t>(rank)] ==
                  options_.classes[static_cast<size_t>(members.front())];
         });
}

bool World::LetOtherThreadsPass() {
  const bool passed = engine_->LetOtherThreadsPass();
  if (passed)
    LOG_DECISION(schedule, 1, "- - other-threads-pass");
  return passed;
}

bool World::EndAborted(int64_t before_ns) {
  const bool ended = engine_->EndAborted(before_ns);
  if (ended)
    LOG_DECISION(schedule, 1, "{} - aborted-work-ends", before_ns);
  return ended;
}

void World::OnCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                           std::span<const int32_t> members, uint32_t index) {
  if (Find(rank) == nullptr)
    return;
  shared_gpus_.Bind(rank, number, identity, members);
  payloads_->AddCommunicator(rank, number, identity, members, index);
  std::weak_ptr<const Group>& known = groups_[identity];
  std::shared_ptr<const Group> group = known.lock();
  if (group == nullptr)
    known = group = std::make_shared<const Group>(
        Group{identity, {members.begin(), members.end()}, AreOneClass(members)});
  LOG_DECISION(membership, 1, "rank {}: communicator {} is {}, rank {} of {}{}", rank,
               number, identity, index, members.size(),
               Logs(LogModule::membership, 2)
                   ? fmt::format(": {}", fmt::join(members, ","))
                   : "");
  Place& place = places_[{rank, number}] = {std::move(group), index, 0, {}};
  if (!lost_.empty()) [[unlikely]]
    NoteBroken(rank, number, place);
  KernelTotal& creations = creations_[rank];
  ++creations.count;
  creations.time_ns += network_->Creation(members).duration.nanoseconds();
  if (options_.keep_communicators)
    communicators_[rank][number] = {identity, {members.begin(), members.end()}};
}

// ---------------------------------------------------------------------------------
// What records hold beside ops
// ---------------------------------------------------------------------------------

void World::OnQuestion(int32_t rank, uint64_t op, const Question& question) {
  Find(rank)->AddQuestion(op, question);
}

void World::OnInit(int32_t rank, uint64_t op, const protocol::CommInit& init) {
  if (before_join_ != nullptr)
    before_join_();
  shared_gpus_.Join(rank, op, init);
}

absl::Status World::OnPayload(int32_t rank, const protocol::Payload& payload,
                              std::span<const std::byte> bytes) {
  return payloads_->Deposit(rank, payload, bytes);
}

absl::Status World::OnCollective(int32_t rank, uint32_t communicator,
                                 const graph::CollectiveCall& call) {
  if (const auto place = places_.find({rank, communicator}); place != places_.end())
    ++place->second.calls;
  return payloads_->Collective(rank, communicator, call);
}

absl::StatusOr<graph::RootedTransfers> World::OnTransfers(
    int32_t rank, uint32_t communicator,
    std::span<const protocol::Transfer> transfers) {
  RETURN_IF_ERROR(payloads_->Transfers(rank, communicator, transfers));
  const auto place = places_.find({rank, communicator});
  if (place == places_.end() || !place->second.group->one_class)
    return graph::RootedTransfers();
  const std::vector<int32_t>& members = place->second.group->members;
  const graph::RootedTransfers rooted = graph::RootedTransfersOf(
      transfers, place->second.index, static_cast<uint32_t>(members.size()));
  if (rooted.empty())
    std::copy_if(members.begin(), members.end(),
                 std::inserter(exchanging_followers_, exchanging_followers_.end()),
                 [this](int32_t member) { return followers_.count(member) != 0; });
  else if (transfers.size() == 1)
    RETURN_IF_ERROR(CheckRoot(transfers.front(), &place->second));
  return rooted;
}

// A stage of a pipeline sends to the next one, too, and there the ranks of one class do
// not do the same. Gathers and scatters have rank 0 as their root, with few exceptions,
// and a member has to do with one root alone; of two members, the data goes to the root
// first (gather_object, torch.distributed.checkpoint), and along a pipeline away from
// rank 0. What else may be is seen where all members are real.
absl::Status World::CheckRoot(const protocol::Transfer& transfer, Place* place) const {
  const std::vector<int32_t>& members = place->group->members;
  std::vector<int32_t> followers;
  std::copy_if(members.begin(), members.end(), std::back_inserter(followers),
               [this](int32_t member) { return followers_.count(member) != 0; });
  if (followers.empty())
    return absl::OkStatus();
  const bool sends = transfer.is_send != 0;
  const bool to_first = transfer.peer == 0 ? sends : !sends;
  const bool is_root_first = members.size() == 2 ? to_first : transfer.peer == 0;
  if (!place->root.has_value() && is_root_first)
    place->root = transfer.peer;
  if (place->root == transfer.peer)
    return absl::OkStatus();
  std::sort(followers.begin(), followers.end());
  absl::Status status = absl::FailedPreconditionError(fmt::format(
      "{} rank {} alone, in a communicator of {} ranks that follow it, and they cannot "
      "all do the same: where it is a pipeline, state its stages (like --layout pp=4) "
      "and make a rank of each real; else make rank{} {} real, too (--real)",
      sends ? "it sends to" : "it receives from", members[transfer.peer],
      members.size(), followers.size() == 1 ? "" : "s", FormatRanks(followers)));
  if (followers.size() <= graph::kMostDecidingRanks)
    graph::AttachDecidingRanks(followers, &status);
  return status;
}

absl::StatusOr<Duration> World::OnEstimate(int32_t rank,
                                           const protocol::Estimate& estimate) {
  const auto place = places_.find({rank, estimate.communicator});
  if (place == places_.end())
    return absl::InvalidArgumentError(
        fmt::format("estimate: communicator {} does not exist", estimate.communicator));
  const std::vector<int32_t>& members = place->second.group->members;
  const bool rooted = estimate.transfer != 0 || estimate.root != 0;
  if (rooted && estimate.root >= members.size())
    return absl::InvalidArgumentError(
        fmt::format("estimate: root or peer {} of a communicator of {}", estimate.root,
                    members.size()));
  if (estimate.transfer == 0)
    return network_
        ->Collective({estimate.operation, estimate.type, estimate.reduction,
                      estimate.root, estimate.count},
                     members)
        .duration;
  const int32_t own = members[place->second.index];
  const int32_t peer = members[estimate.root];
  const bool sends = estimate.transfer == 1;
  return network_->Transfer(estimate.count, sends ? own : peer, sends ? peer : own)
      .duration;
}

void World::OnRelease(int32_t rank, uint32_t communicator) {
  payloads_->ReleaseCommunicator(rank, communicator);
  const auto place = places_.find({rank, communicator});
  if (place == places_.end())
    return;
  const std::shared_ptr<const Group> group = std::move(place->second.group);
  places_.erase(place);
  if (group.use_count() == 1)
    groups_.erase(group->identity);
}

void World::OnLoss(int32_t rank, uint64_t op, uint32_t loss, const std::string& name,
                   uint64_t amount) {
  losses_[rank][{loss, name}] += amount;
  if (loss == static_cast<uint32_t>(LossId::kUnknownSizes) ||
      loss == static_cast<uint32_t>(LossId::kUnknownDecisions))
    first_losses_.try_emplace({rank, loss}, FirstLoss{op, name});
}

std::optional<World::FirstLoss> World::FirstOf(int32_t rank, LossId loss) const {
  const auto found = first_losses_.find({rank, static_cast<uint32_t>(loss)});
  return found == first_losses_.end() ? std::nullopt : std::optional(found->second);
}

void World::OnHostGaps(int32_t rank, const protocol::HostGaps& batch,
                       std::span<const protocol::HostGap> gaps) {
  RealRank* const real = Find(rank);
  if (options_.gap_recorder != nullptr) {
    options_.gap_recorder->Add(rank, batch, gaps);
    protocol::HostGaps of_follower{};
    for (protocol::HostGap gap; real->link().TakeFollowerGap(&of_follower, &gap);)
      options_.gap_recorder->AddOfFollower(rank, of_follower, gap);
  }
  real->AddGaps(batch.thread, gaps);
}

void World::OnAllocatorPeak(int32_t rank, uint64_t op,
                            const protocol::AllocatorPeak& peak) {
  Find(rank)->AddAllocatorPeak(op, peak);
}

void World::OnAllocatorBlocks(int32_t rank, uint64_t,
                              std::span<const protocol::AllocatorBlock> blocks,
                              bool complete) {
  Find(rank)->AddAllocatorBlocks(blocks, complete);
}

void World::OnActivity(int32_t rank, protocol::ActivityWish wish, uint32_t slot) {
  RealRank* const asker = Find(rank);
  ActivityPublisher* publisher = asker->publisher();
  if (publisher == nullptr)
    publisher = asker->StartPublisher(engine_.get());
  publisher->OnWish(wish, slot);
}

}  // namespace vrank::emulator
