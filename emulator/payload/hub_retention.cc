// What the hub keeps and for how long, and contributions that wait for other results.

#include <algorithm>
#include <optional>
#include <utility>

#include "base/guest/element_bytes.h"
#include "emulator/payload/hub.h"

namespace vrank::emulator {

using protocol::PayloadKey;

void PayloadHub::ReleaseCommunicator(int32_t rank, uint32_t number) {
  const auto binding = bindings_.find(Place{rank, number});
  if (binding == bindings_.end())
    return;
  const std::shared_ptr<Communicator> communicator = binding->second.communicator;
  communicator->released.emplace_back(rank, number);
  if (communicator->has_lost)
    LookAgainAt(communicator.get());
  ForgetReleased(communicator.get());
  ResolveDerived();
}

// A communicator without results vanishes as soon as programs have given it up.
void PayloadHub::ForgetReleased(Communicator* communicator) {
  if (!communicator->operations.empty())
    return;
  for (const Place& place : communicator->released)
    communicator->bindings -= static_cast<uint32_t>(bindings_.erase(place));
  if (communicator->released.empty())
    return;
  communicator->released.clear();
  if (communicator->bindings == 0)
    communicators_.erase(communicator->identity);
  // Who waits for a result of it finds that nothing known was ever in it.
  LookAgainAt(communicator);
}

void PayloadHub::LookAgainAt(const Communicator* communicator) {
  for (auto at = waiting_.lower_bound(Source{communicator, Key{}});
       at != waiting_.end() && at->first.first == communicator; ++at)
    changed_.push_back(at->first);
}

void PayloadHub::LoseRank(int32_t rank) {
  lost_ranks_.insert(rank);
  for (const auto& [identity, known] : communicators_) {
    const std::shared_ptr<Communicator> communicator = known.lock();
    if (communicator == nullptr ||
        std::find(communicator->members.begin(), communicator->members.end(), rank) ==
            communicator->members.end())
      continue;
    communicator->has_lost = true;
    LookAgainAt(communicator.get());
  }
  ResolveDerived();
}

bool PayloadHub::WillNotCall(const Communicator& communicator, uint32_t member) const {
  if (!communicator.has_lost)
    return false;
  const int32_t rank = communicator.members[member];
  return lost_ranks_.count(rank) != 0 ||
         std::any_of(communicator.released.begin(), communicator.released.end(),
                     [rank](const Place& place) { return place.first == rank; });
}

bool PayloadHub::NeverComes(const Communicator& communicator,
                            Operation& operation) const {
  for (size_t slot = 0; slot < communicator.real.size(); ++slot)
    if (!operation.contribution(slot).closed &&
        WillNotCall(communicator, communicator.real[slot]))
      return true;
  return false;
}

void PayloadHub::Erase(const std::shared_ptr<Communicator>& communicator,
                       const Key& key) {
  communicator->operations.erase(key);
  ForgetReleased(communicator.get());
}

void PayloadHub::Close(const std::shared_ptr<Communicator>& communicator,
                       const Key& key, size_t slot, int32_t rank) {
  const std::shared_ptr<Operation> operation =
      communicator->operations.find(key)->second;
  operation->contribution(slot).closed = true;
  // By a real rank that a virtual receiver follows: it receives the same of a virtual
  // rank that follows this one (LeadersCommunicator).
  const auto is_mirrored = [&] {
    if (leader_of_ == nullptr || operation->AllComputed())
      return false;
    const auto place =
        leader_of_(communicator->members[key.to], communicator->identity);
    if (!place.has_value())
      return false;
    const auto leader = bindings_.find(*place);
    if (leader == bindings_.end())
      return true;  // it may join yet
    const std::vector<int32_t>& members = leader->second.communicator->members;
    return leader->second.communicator != communicator && key.from < members.size() &&
           real_ranks_.count(members[key.from]) == 0;
  };
  const bool unseen =
      key.is_transfer != 0 && real_ranks_.count(communicator->members[key.to]) == 0;
  if (unseen && !is_mirrored()) {
    retained_ -= operation->known_bytes();
    Erase(communicator, key);
    return;
  }
  Resolve(Unresolved{communicator, key, slot, rank}, operation.get());
  ResolveDerived();
  MakeRoom();
}

void PayloadHub::Complete(const std::shared_ptr<Communicator>& communicator,
                          const Key& key, const Operation& operation) {
  if (operation.AllComputed() && operation.policy() != PayloadPolicy::kRecorded) {
    Erase(communicator, key);
    return;
  }
  retained_ += kOperationBytes;
  complete_.push_back(Held{communicator, key});
}

// Gives up the oldest complete operations until the rest fits.
void PayloadHub::MakeRoom() {
  while (retained_ > options_.retained_bytes && !complete_.empty()) {
    const Held held = std::move(complete_.front());
    complete_.pop_front();
    const auto found = held.communicator->operations.find(held.key);
    const uint64_t bytes = found->second->known_bytes();
    retained_ -= bytes + kOperationBytes;
    dropped_bytes_ += bytes;
    Erase(held.communicator, held.key);
  }
}

void PayloadHub::ResolveDerived() {
  while (!changed_.empty()) {
    const auto waiting = waiting_.find(changed_.back());
    changed_.pop_back();
    if (waiting == waiting_.end())
      continue;
    const std::vector<Unresolved> again = std::move(waiting->second);
    waiting_.erase(waiting);
    for (const Unresolved& entry : again) {
      const auto found = entry.communicator->operations.find(entry.key);
      if (found == entry.communicator->operations.end())
        continue;
      const std::shared_ptr<Operation> operation = found->second;
      Resolve(entry, operation.get());
    }
  }
}

void PayloadHub::Resolve(const Unresolved& waiting, Operation* operation) {
  Content& content = operation->contribution(waiting.slot).content;
  const uint64_t before = content.known_bytes();
  std::optional<Source> missing;
  content.ResolveDerived(
      [&](const Content::Origin& origin, uint64_t bytes, Content* out) {
        return ReadOrigin(waiting.rank, origin, bytes, out, &missing);
      });
  retained_ += content.known_bytes() - before;
  if (missing.has_value()) {
    waiting_[*missing].push_back(waiting);
    return;
  }
  const bool all = operation->AllReady();
  if (all || operation->OneSuffices())
    changed_.emplace_back(waiting.communicator.get(), waiting.key);
  if (all)
    Complete(waiting.communicator, waiting.key, *operation);
}

PayloadHub::Source PayloadHub::SourceOf(int32_t rank, const PayloadKey& key) const {
  const Binding& binding = bindings_.at(Place{rank, key.communicator});
  const auto leaders = key.is_transfer != 0
                           ? LeadersCommunicator(*binding.communicator, key.peer)
                           : nullptr;
  return {leaders != nullptr ? leaders.get() : binding.communicator.get(),
          key.is_transfer != 0 ? Key{1, key.peer, binding.index, key.sequence}
                               : Key{0, 0, 0, key.sequence}};
}

bool PayloadHub::ReadOrigin(int32_t rank, const Content::Origin& origin, uint64_t bytes,
                            Content* out, std::optional<Source>* missing) {
  using protocol::FactorState;
  Content values;
  if (origin.source == nullptr) {
    if (!values.AddKnown(0, origin.data, false).ok())
      return false;
  } else if (!ReadResult(rank, *origin.source, bytes, &values)) {
    *missing = SourceOf(rank, origin.source->key);
    return false;
  }
  const protocol::PayloadFactor& factor = origin.factor;
  if (factor.state == FactorState::kNone) {
    *out = std::move(values);
    return true;
  }
  const void* value = factor.value;
  Content scalar;
  Content::Stretch found;
  if (factor.state == FactorState::kDerived) {
    const uint64_t element = protocol::ElementBytes(factor.type);
    if (!ReadResult(rank, {factor.source, factor.source_offset}, element, &scalar)) {
      *missing = SourceOf(rank, factor.source);
      return false;
    }
    found = scalar.At(0, element);
    if (found.state != protocol::PayloadState::kKnown || found.bytes < element)
      return out->AddComputed(0, bytes).ok();
    value = found.data;
  }
  *out = values.Multiplied(factor.type, value, found.mirrored);
  return true;
}

// False where the result is not complete yet. What cannot be read is computed.
bool PayloadHub::ReadResult(int32_t rank, const Content::Source& source, uint64_t bytes,
                            Content* out) {
  for (uint64_t at = 0; at < bytes;) {
    absl::StatusOr<Fetched> fetched =
        Fetch(rank, source.key, source.offset + at, bytes - at);
    if (!fetched.ok())
      return out->AddComputed(at, bytes - at).ok();
    if (fetched->state == FetchState::kNotReady)
      return false;
    absl::Status status =
        fetched->state == FetchState::kKnown
            ? out->AddKnown(at, fetched->data, fetched->mirrored_bytes != 0)
            : out->AddComputed(at, fetched->bytes);
    if (!status.ok())
      return false;
    at += fetched->bytes;
  }
  return true;
}

}  // namespace vrank::emulator
