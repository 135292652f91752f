#include "graph/flow/flow_contention.h"

#include <algorithm>

namespace vrank::graph {
namespace {

// splitmix64's finaliser (Steele et al., OOPSLA 2014).
uint64_t Mixed(uint64_t a, uint64_t b) {
  uint64_t x = (a + 0x9e3779b97f4a7c15) ^ (b * 0xd1342543de82ef95);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// FNV-1a. Orders what starts at one instant by what it is, not by when the engine got
// to it.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

FlowContention::FlowContention(const FlowModel* model) : model_(model) {
  model_->AddLinks(&simulation_);
}

FlowContention::Known& FlowContention::KnownOf(const Collective& collective) {
  if (known_.size() <= collective.communicator)
    known_.resize(collective.communicator + 1);
  Known& known = known_[collective.communicator];
  // The number may have belonged to another communicator, which is gone.
  if (known.identity != *collective.identity) {
    known.plans.clear();
    known.identity = *collective.identity;
    known.hash = Hash(known.identity);
  }
  return known;
}

uint32_t FlowContention::OperationOf(const Collective& collective, const Known& known) {
  const uint64_t key = uint64_t{collective.communicator} << 32 | collective.sequence;
  const auto [at, added] = open_.try_emplace(key, 0);
  if (!added)
    return at->second;
  if (free_operations_.empty()) {
    free_operations_.push_back(static_cast<uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  at->second = free_operations_.back();
  free_operations_.pop_back();
  Operation& operation = operations_[at->second];
  operation.pieces = known.plans.at(*collective.call).get();
  operation.key = key;
  operation.left = collective.present;
  operation.waiters.assign(collective.members.size(), {});
  operation.moved.assign(operation.pieces->size(), kNotStarted);
  return at->second;
}

void FlowContention::Begin(const Collective& collective,
                           std::span<const Member> members) {
  Known& known = KnownOf(collective);
  std::unique_ptr<Pieces>& plan = known.plans[*collective.call];
  if (plan == nullptr)
    plan = std::make_unique<Pieces>(
        model_->Collective(*collective.call, collective.members));
  const uint32_t operation = OperationOf(collective, known);
  const uint64_t order = Mixed(known.hash, collective.sequence);
  for (const Member& member : members)
    Join(operation, order, member);
}

void FlowContention::Join(uint32_t number, uint64_t order, const Member& member) {
  Operation& operation = operations_[number];
  Waiter& waiter = operation.waiters[member.member];
  waiter = {member.ticket, member.end_ns, 0, true};
  for (uint32_t i = 0; i < operation.pieces->size(); ++i) {
    const CollectivePiece& piece = (*operation.pieces)[i];
    if (piece.from != CollectivePiece::kEveryone && piece.from != member.member &&
        piece.to != member.member)
      continue;
    if (operation.moved[i] == kNotStarted) {
      operation.moved[i] = kMoving;
      Move({number, i, 0, member.end_ns}, Mixed(order, i), piece.plan);
    }
    if (operation.moved[i] == kMoving)
      ++waiter.pieces;
    else
      waiter.end_ns = std::max(waiter.end_ns, operation.moved[i]);
  }
  if (waiter.pieces == 0) {
    ready_.push_back({waiter.ticket, waiter.end_ns});
    Told(number);
  }
}

void FlowContention::Begin(const Transfer& transfer) {
  std::unique_ptr<FlowPlan>& plan =
      transfers_[{transfer.from, transfer.to, transfer.bytes}];
  if (plan == nullptr)
    plan = std::make_unique<FlowPlan>(
        model_->Transfer(transfer.bytes, transfer.from, transfer.to));
  if (plan->flows.empty()) {
    ready_.push_back({transfer.ticket, transfer.end_ns});
    return;
  }
  const uint64_t between = uint64_t{static_cast<uint32_t>(transfer.from)} << 32 |
                           static_cast<uint32_t>(transfer.to);
  const uint64_t order =
      Mixed(Mixed(Hash(*transfer.identity), between), transfer.sequence);
  Move({~uint32_t{0}, 0, transfer.ticket, transfer.end_ns}, order, *plan);
}

void FlowContention::Move(const Moving& what, uint64_t order, const FlowPlan& plan) {
  if (free_moving_.empty()) {
    free_moving_.push_back(static_cast<uint32_t>(moving_.size()));
    moving_.emplace_back();
  }
  const uint32_t key = free_moving_.back();
  free_moving_.pop_back();
  moving_[key] = what;
  simulation_.Start(key, order, what.end_ns - plan.alone_ns, &plan);
}

void FlowContention::Moved(const Moving& what, int64_t end_ns,
                           std::vector<Ended>* ended) {
  if (what.operation == ~uint32_t{0}) {
    ended->push_back({what.ticket, end_ns});
    return;
  }
  Operation& operation = operations_[what.operation];
  const CollectivePiece& piece = (*operation.pieces)[what.piece];
  operation.moved[what.piece] = end_ns;
  const auto tell = [&](Waiter& waiter) {
    if (!waiter.here)
      return;
    waiter.end_ns = std::max(waiter.end_ns, end_ns);
    if (--waiter.pieces == 0) {
      ended->push_back({waiter.ticket, waiter.end_ns});
      Told(what.operation);
    }
  };
  if (piece.from == CollectivePiece::kEveryone) {
    for (Waiter& waiter : operation.waiters)
      tell(waiter);
  } else {
    tell(operation.waiters[piece.from]);
    tell(operation.waiters[piece.to]);
  }
}

void FlowContention::Told(uint32_t number) {
  Operation& operation = operations_[number];
  if (--operation.left != 0)
    return;
  open_.erase(operation.key);
  free_operations_.push_back(number);
}

bool FlowContention::Advance(std::vector<Ended>* ended) {
  if (!ready_.empty()) {
    ended->insert(ended->end(), ready_.begin(), ready_.end());
    ready_.clear();
    return true;
  }
  // A group ends with its last flow; the instants before tell the engine nothing.
  while (ended->empty()) {
    flow_ends_.clear();
    if (!simulation_.Advance(&flow_ends_))
      return false;
    for (const FlowSimulation::Ended& one : flow_ends_) {
      if (!one.last)
        continue;
      const Moving what = moving_[one.key];
      free_moving_.push_back(static_cast<uint32_t>(one.key));
      Moved(what, one.end_ns, ended);
    }
  }
  return true;
}

}  // namespace vrank::graph
