// Drives blocks until none can go on; see sweep.h.
//
// Each thread has a stack of blocks that can go on, and takes from others when its own
// is empty. The last block that went on is taken first: what it has just written is
// still in the cache.

#include "graph/sweep/sweep.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "graph/replay/step.h"
#include "graph/sweep/block.h"
#include "graph/sweep/helpers.h"
#include "graph/sweep/layout.h"

namespace vrank::graph {

class Sweep::Impl : public SweepWaker {
 public:
  explicit Impl(uint32_t threads) : stacks_(std::max(1u, threads)) {}

  SweepLayout layout;

  absl::Status Run();
  void Wake(SweepBlock* block) override;

 private:
  struct Stack {
    std::mutex mutex;
    std::vector<SweepBlock*> blocks;
  };

  void Reset();
  void Work(uint32_t thread);
  SweepBlock* Take(uint32_t thread);
  void Drive(SweepBlock& block);
  bool Await(SweepBlock& block, uint32_t communicator);
  void Settle(SweepBlock& block, uint32_t communicator);
  void AddWaited(SweepBlock& block, uint32_t communicator, int64_t sign,
                 const int64_t* cost);
  void Meet(SweepBlock& block, uint32_t meeting);
  void Arrive(SweepAssembly& assembly, SweepAssembly::Round& round,
              const SweepBinding& binding, uint32_t meeting);
  void Observe(SweepBlock& block, const SweepOp& op, uint32_t at);
  void Query(SweepBlock& block, const SweepOp& op, uint32_t at);
  void Poll(SweepBlock& block, const SweepOp& op, uint32_t at);
  Stamp HostAt(const SweepBlock& block, const SweepOp& op, uint32_t at,
               uint32_t lane) const;
  Stamp At(const SweepBlock& block, uint16_t slot, uint32_t lane) const;

  std::vector<Stack> stacks_;
  std::atomic<uint32_t> open_{0};  // blocks on stacks or being driven
  std::atomic<uint32_t> finished_{0};
  std::atomic<bool> failed_{false}, gave_up_{false};
  std::mutex idle_mutex_;
  std::condition_variable idle_;
};

void Sweep::Impl::Reset() {
  finished_ = 0;
  failed_ = gave_up_ = false;
  for (SweepAssembly& assembly : layout.assemblies) {
    for (SweepAssembly::Round* round : {&assembly.collective, &assembly.host})
      round->missing = static_cast<uint32_t>(assembly.members.size());
  }
  for (SweepChannel& channel : layout.channels)
    channel.Reset();
  for (auto& block : layout.blocks) {
    for (auto* numbers : {&block->state, &block->busy, &block->waited, &block->met,
                          &block->divergences, &block->own_works})
      std::fill(numbers->begin(), numbers->end(), 0);
    std::fill(block->decided.begin(), block->decided.end(), 0);
    block->suspended = false;
    block->lanes.next = 0;
    block->lanes.works = 0;
    block->lanes.runs_done = 0;
  }
}

absl::Status Sweep::Impl::Run() {
  Reset();
  open_ = static_cast<uint32_t>(layout.blocks.size());
  // The first block is on top.
  for (auto block = layout.blocks.rbegin(); block != layout.blocks.rend(); ++block)
    stacks_[(*block)->home % stacks_.size()].blocks.push_back(block->get());
  Helpers helpers(&gave_up_);
  for (uint32_t thread = 1; thread < stacks_.size(); ++thread)
    helpers.Add([this, thread] { Work(thread); });
  Work(0);
  helpers.Join();
  if (failed_ || finished_ != layout.blocks.size())
    return absl::UnimplementedError("blocks of ranks wait for each other");
  // The incremental engine says whether that is an error, and of whom.
  for (const SweepChannel& channel : layout.channels) {
    if (!channel.all_sends_received())
      return absl::UnimplementedError("a send has no receive");
  }
  return absl::OkStatus();
}

void Sweep::Impl::Wake(SweepBlock* block) {
  ++open_;
  Stack& stack = stacks_[block->home % stacks_.size()];
  {
    const std::lock_guard<std::mutex> lock(stack.mutex);
    stack.blocks.push_back(block);
  }
  if (stacks_.size() > 1)
    idle_.notify_one();
}

SweepBlock* Sweep::Impl::Take(uint32_t thread) {
  for (uint32_t i = 0; i < stacks_.size(); ++i) {
    Stack& stack = stacks_[(thread + i) % stacks_.size()];
    const std::lock_guard<std::mutex> lock(stack.mutex);
    if (stack.blocks.empty())
      continue;
    SweepBlock* const block = stack.blocks.back();
    stack.blocks.pop_back();
    return block;
  }
  return nullptr;
}

void Sweep::Impl::Work(uint32_t thread) {
  while (!gave_up_) {
    SweepBlock* const block = Take(thread);
    if (block != nullptr) {
      Drive(*block);
      if (--open_ == 0)
        idle_.notify_all();
      continue;
    }
    if (open_ == 0)
      return;
    std::unique_lock<std::mutex> lock(idle_mutex_);
    idle_.wait_for(lock, std::chrono::microseconds(50));
  }
}

// Goes on with a block until it has to wait.
void Sweep::Impl::Drive(SweepBlock& block) {
  SweepLanes& lanes = block.lanes;
  if (block.suspended) {
    block.suspended = false;
    Settle(block, block.code->ops[lanes.next].x);
  }
  while (!failed_) {
    block.kernel(lanes);
    const uint32_t at = lanes.next;
    const SweepOp& op = block.code->ops[at];
    switch (op.kind) {
      case SweepKind::kCreate:
      case SweepKind::kCollective:
      case SweepKind::kTransfers:
        Meet(block, op.x);
        break;
      case SweepKind::kAwait:
        FetchAhead(lanes, layout.ledgers.count());
        if (!Await(block, op.x))
          return;
        continue;
      case SweepKind::kObserve:
        Observe(block, op, at);
        break;
      case SweepKind::kQuery:
        Query(block, op, at);
        break;
      case SweepKind::kPoll:
        Poll(block, op, at);
        break;
      default:
        ++finished_;
        return;
    }
    ++lanes.next;
  }
}

// False: the block is driven on by whoever ends what it waits for.
bool Sweep::Impl::Await(SweepBlock& block, uint32_t communicator) {
  block.suspended = true;
  if (block.pending[communicator].fetch_sub(1, std::memory_order_acq_rel) != 1)
    return false;
  block.suspended = false;
  Settle(block, communicator);
  return true;
}

void Sweep::Impl::Settle(SweepBlock& block, uint32_t communicator) {
  const uint32_t meeting = block.meeting[communicator];
  const OpKind kind = block.code->meetings[meeting].kind;
  if (kind == OpKind::kTransfers)
    EndTransfers(block, communicator, layout.ledgers);
  else if (kind == OpKind::kCollective)
    AddWaited(block, communicator, 1, block.bindings[meeting].cost->data());
  block.decided[communicator] = 1;
}

// Waiting is the end less the cost less the arrival: `sign` times what is in the slot.
// Only the block's own thread may count here.
void Sweep::Impl::AddWaited(SweepBlock& block, uint32_t communicator, int64_t sign,
                            const int64_t* cost) {
  const int64_t* const slot = block.Slot(block.code->communicators[communicator].slot);
  for (uint32_t lane = 0; lane < block.lanes.width; ++lane)
    block.waited[lane] += sign * slot[lane] - (cost == nullptr ? 0 : cost[lane]);
}

void Sweep::Impl::Meet(SweepBlock& block, uint32_t meeting) {
  const SweepCode::Meeting& what = block.code->meetings[meeting];
  const SweepBinding& binding = block.bindings[meeting];
  block.meeting[what.communicator] = meeting;
  block.decided[what.communicator] = 0;
  std::atomic<int32_t>& pending = block.pending[what.communicator];
  if (what.kind == OpKind::kTransfers) {
    pending.store(1 + static_cast<int32_t>(binding.parts.size()),
                  std::memory_order_release);
    for (const SweepBinding::Part& part : binding.parts) {
      const bool fits = part.is_send
                            ? part.channel->Send(part.place, part.bytes, this)
                            : part.channel->Receive(part.place, part.bytes, this);
      if (!fits)
        failed_ = true;
    }
    return;
  }
  if (what.kind == OpKind::kCollective)
    AddWaited(block, what.communicator, -1, nullptr);
  pending.store(2, std::memory_order_release);
  SweepAssembly& assembly = *binding.assembly;
  Arrive(assembly,
         what.kind == OpKind::kCollective ? assembly.collective : assembly.host,
         binding, meeting);
}

void Sweep::Impl::Arrive(SweepAssembly& assembly, SweepAssembly::Round& round,
                         const SweepBinding& binding, uint32_t meeting) {
  round.meetings[binding.member] = meeting;
  if (round.missing.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  round.missing.store(static_cast<uint32_t>(assembly.members.size()),
                      std::memory_order_release);
  if (&round == &assembly.collective)
    EndCollective(assembly, layout.ledgers);
  else
    EndCreation(assembly, layout.ledgers);
  for (uint32_t i = 0; i < assembly.members.size(); ++i) {
    SweepBlock* const block = assembly.members[i];
    PartEnded(block, block->code->meetings[round.meetings[i]].communicator);
  }
}

Stamp Sweep::Impl::At(const SweepBlock& block, uint16_t slot, uint32_t lane) const {
  if (slot == SweepOp::kNoSlot)
    return {};
  return ReadStamp(block.Slot(slot), block.lanes.width, lane, layout.ledgers);
}

Stamp Sweep::Impl::HostAt(const SweepBlock& block, const SweepOp& op, uint32_t at,
                          uint32_t lane) const {
  Stamp host = At(block, 0, lane);
  const auto count = static_cast<uint32_t>(layout.ledgers.count());
  const size_t rows = SweepLanes::kOwnCosts + count, width = block.lanes.width;
  const uint32_t* const own =
      block.lanes.own == nullptr ? nullptr : block.lanes.own + at * rows * width + lane;
  host.ns += own == nullptr ? op.issue : *own;
  for (size_t i = 0, part = 0; i < LedgerSet::kAll.size(); ++i) {
    if (!layout.ledgers.used[i])
      continue;
    host.*LedgerSet::kAll[i] +=
        own == nullptr ? block.code->ledgers[static_cast<size_t>(at) * count + part]
                       : own[(SweepLanes::kOwnCosts + part) * width];
    ++part;
  }
  return host;
}

void Sweep::Impl::Observe(SweepBlock& block, const SweepOp& op, uint32_t at) {
  for (uint32_t lane = 0; lane < block.ranks.size(); ++lane)
    WriteStamp(HostAt(block, op, at, lane), block.observations[op.x].data(),
               block.lanes.width, lane, layout.ledgers);
}

void Sweep::Impl::Query(SweepBlock& block, const SweepOp& op, uint32_t at) {
  for (uint32_t lane = 0; lane < block.ranks.size(); ++lane) {
    const bool ended =
        Step::HasEnded(At(block, op.slot, lane), HostAt(block, op, at, lane));
    block.divergences[lane] += ended != (op.x == kAnswerComplete);
  }
}

void Sweep::Impl::Poll(SweepBlock& block, const SweepOp& op, uint32_t at) {
  const SweepCode::Poll& poll = block.code->polls[op.x];
  for (uint32_t lane = 0; lane < block.ranks.size(); ++lane) {
    Stamp host = HostAt(block, op, at, lane);
    Step::HostPoll(host, At(block, op.slot, lane), poll.cycle, poll.source);
    WriteStamp(host, block.Slot(0), block.lanes.width, lane, layout.ledgers);
  }
}

namespace {

uint64_t PhysicalBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Sweep::Sweep(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sweep::~Sweep() = default;

absl::StatusOr<std::unique_ptr<Sweep>> Sweep::Prepare(const ResolvedJob& job,
                                                      const NetworkModel& network,
                                                      const SweepOptions& options) {
  auto impl = std::make_unique<Impl>(
      options.threads != 0 ? options.threads : std::thread::hardware_concurrency());
  SweepOptions limited = options;
  if (limited.max_bytes == 0)
    limited.max_bytes = PhysicalBytes();
  if (absl::Status status = MakeSweepLayout(job, network, limited, &impl->layout);
      !status.ok())
    return status;
  return std::unique_ptr<Sweep>(new Sweep(std::move(impl)));
}

absl::Status Sweep::Run() {
  return impl_->Run();
}

RankResult Sweep::result(uint32_t place) const {
  const SweepLayout& layout = impl_->layout;
  const SweepLayout::Seat& seat = layout.seats[place];
  const SweepBlock& block = *layout.blocks[seat.block];
  const SweepCode& code = block.CodeOf(seat.lane);
  RankResult result = code.fixed;
  result.end = ReadStamp(block.Slot(0), block.lanes.width, seat.lane, layout.ledgers);
  result.divergences = static_cast<uint64_t>(block.divergences[seat.lane]);
  // What the host did not spend itself and not in meetings, it waited.
  result.host_waited =
      Duration::Nanoseconds(result.end.ns - code.host_ns - block.met[seat.lane]);
  return result;
}

RankActivity Sweep::activity(uint32_t place) const {
  const SweepLayout::Seat& seat = impl_->layout.seats[place];
  const SweepBlock& block = *impl_->layout.blocks[seat.block];
  RankActivity activity;
  activity.busy_ns = block.CodeOf(seat.lane).busy_ns + block.busy[seat.lane];
  activity.communication_waited_ns = block.waited[seat.lane];
  activity.communication_ns = block.waited[seat.lane] + block.communicated[seat.lane];
  return activity;
}

std::vector<RangeMark> Sweep::marks(uint32_t place) const {
  const SweepLayout& layout = impl_->layout;
  const SweepLayout::Seat& seat = layout.seats[place];
  const SweepBlock& block = *layout.blocks[seat.block];
  std::vector<RangeMark> marks;
  for (size_t i = 0; i < block.observations.size(); ++i)
    marks.push_back({block.CodeOf(seat.lane).observations[i],
                     ReadStamp(block.observations[i].data(), block.lanes.width,
                               seat.lane, layout.ledgers)});
  return marks;
}

int64_t Sweep::end(uint32_t place, uint64_t op) const {
  const SweepLayout::Seat& seat = impl_->layout.seats[place];
  const SweepBlock& block = *impl_->layout.blocks[seat.block];
  const int64_t* const ends = block.lanes.ends;
  return ends == nullptr ? 0 : ends[op * block.lanes.width + seat.lane];
}

uint64_t Sweep::ops() const {
  uint64_t sum = 0;
  for (const auto& block : impl_->layout.blocks)
    for (uint32_t lane = 0; lane < block->ranks.size(); ++lane)
      sum += block->CodeOf(lane).fixed.ops;
  return sum;
}

uint64_t Sweep::bytes() const {
  return impl_->layout.bytes;
}

uint32_t Sweep::blocks() const {
  return static_cast<uint32_t>(impl_->layout.blocks.size());
}

VectorUnit Sweep::unit() const {
  return impl_->layout.unit;
}

}  // namespace vrank::graph
