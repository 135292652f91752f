// A communicator as the engine sees it: members, and the operations under way.
//
// Thread rule: plain data of the engine.

#ifndef VRANK_GRAPH_REPLAY_COMMUNICATOR_H_
#define VRANK_GRAPH_REPLAY_COMMUNICATOR_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/replay/collective_rendezvous.h"
#include "graph/replay/condition.h"
#include "graph/replay/network_model.h"
#include "graph/replay/transfer_channel.h"

namespace vrank::graph {

// The host threads of all present members meet here, to create or to split.
struct CreationMeeting {
  struct Joiner {
    uint32_t rank = kNone;  // index in the engine; kNone: has not joined
    uint32_t number = 0;    // the rank's own number of the new communicator
    uint32_t details = 0;   // index of its Creation
    uint64_t op = 0;
    Stamp host;
    uint32_t future = kNone;  // of a host that does not wait: its token's
    uint32_t token = 0;
    bool withdrawn = false;  // given up before the others came
    bool passed = false;     // only the thread that joined waits (LetOtherThreadsPass)
  };
  std::vector<Joiner> joiners;  // by member index
  uint32_t joined = 0;
  uint32_t first = kNone;  // the member that joined first
  uint32_t excluded = 0;   // present members that take no part
  bool complete = false;

  void Join(uint32_t member, const Joiner& joiner) {
    joiners[member] = joiner;
    if (joined++ == 0)
      first = member;
  }
};

template <class Step>
class Communicator {
 public:
  // `ranks`: index in the engine of each member; kNone where it is assumed absent.
  void Open(std::string name, std::vector<int32_t> world_ranks,
            std::vector<uint32_t> engine_ranks) {
    *this = Communicator();
    identity = std::move(name);
    members = std::move(world_ranks);
    ranks = std::move(engine_ranks);
    absent.resize(members.size());
    for (size_t i = 0; i < ranks.size(); ++i) {
      absent[i] = ranks[i] == kNone;
      present += !absent[i];
    }
    std::vector<int32_t> sorted = members;
    std::sort(sorted.begin(), sorted.end());
    repeats = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  }

  uint32_t size() const { return static_cast<uint32_t>(members.size()); }
  uint32_t absentees() const { return size() - present; }

  // The collective with that number; not open if nobody has arrived.
  CollectiveRendezvous<Step>& Collective(uint32_t sequence) {
    while (sequence - first_open_ >= open_.size())
      Grow();
    return open_[sequence % open_.size()];
  }
  const CollectiveRendezvous<Step>& Collective(uint32_t sequence) const {
    return open_[sequence % open_.size()];
  }
  // One is over that has not been opened. REQUIRES: none is open.
  void PassCollective() { ++first_open_; }
  // Forgets what all members have left.
  void RetireCollectives() {
    while (!open_.empty() && open_[first_open_ % open_.size()].done())
      open_[first_open_++ % open_.size()].Close();
  }

  // A program repeats few calls; the model is asked once for each.
  const Cost& CostOf(const CollectiveCall& call, const NetworkModel& network) {
    if (last_cost_ < costs_.size() && costs_[last_cost_].first == call)
      return costs_[last_cost_].second;
    const auto at =
        std::lower_bound(costs_.begin(), costs_.end(), call,
                         [](const auto& known, const CollectiveCall& wanted) {
                           return known.first < wanted;
                         });
    last_cost_ = static_cast<size_t>(at - costs_.begin());
    if (at != costs_.end() && at->first == call)
      return at->second;
    const Cost cost = network.Collective(call, members);
    return costs_.insert(at, {call, cost})->second;
  }

  TransferChannel<Step>& Channel(uint32_t from, uint32_t to,
                                 const NetworkModel* network, bool shared) {
    if (channels_from_.empty())
      channels_from_.resize(size());
    auto& channels = channels_from_[from];
    const auto at = std::lower_bound(
        channels.begin(), channels.end(), to,
        [](const auto& known, uint32_t wanted) { return known.first < wanted; });
    if (at != channels.end() && at->first == to)
      return *at->second;
    return *channels
                .emplace(at, to,
                         std::make_unique<TransferChannel<Step>>(network, members[from],
                                                                 members[to], shared))
                ->second;
  }

  // The same, or nullptr where nothing has arrived at either end.
  const TransferChannel<Step>* FindChannel(uint32_t from, uint32_t to) const {
    if (channels_from_.empty())
      return nullptr;
    for (const auto& [receiver, channel] : channels_from_[from]) {
      if (receiver == to)
        return channel.get();
    }
    return nullptr;
  }

  // Calls visit(from, to, channel) for each pair that has exchanged, by index.
  template <class Visit>
  void ForEachChannel(Visit visit) const {
    for (uint32_t from = 0; from < channels_from_.size(); ++from) {
      for (const auto& [to, channel] : channels_from_[from])
        visit(from, to, static_cast<const TransferChannel<Step>&>(*channel));
    }
  }
  template <class Visit>
  void ForEachChannel(Visit visit) {
    for (uint32_t from = 0; from < channels_from_.size(); ++from) {
      for (auto& [to, channel] : channels_from_[from])
        visit(from, to, *channel);
    }
  }

  // Its operations become those of `from`, with member m in the state of that one's
  // member seats[m] (kNone: absent), and its queue tag_of(m, that one's). Members of
  // both are in the same order where there are transfers.
  template <class TagOf>
  void TakeOver(const Communicator& from, const std::vector<uint32_t>& seats,
                TagOf tag_of) {
    std::vector<CollectiveRendezvous<Step>> open(from.open_.size());
    for (size_t i = 0; i < open.size(); ++i) {
      if (from.open_[i].open())
        open[i].TakeOver(from.open_[i], seats, tag_of);
    }
    Channels channels(from.channels_from_.size());
    for (uint32_t sender = 0; sender < channels.size(); ++sender) {
      for (const auto& [receiver, channel] : from.channels_from_[sender]) {
        channels[sender].emplace_back(
            receiver,
            channel->CopyFor(
                members[sender], members[receiver],
                [&](uint32_t queue) { return tag_of(sender, queue); },
                [&, to = receiver](uint32_t queue) { return tag_of(to, queue); }));
      }
    }
    open_ = std::move(open);
    channels_from_ = std::move(channels);
    first_open_ = from.first_open_;
    costs_ = from.costs_;
    last_cost_ = from.last_cost_;
  }

  // No rank is about to create something of it.
  bool Settled() const {
    return splits_.empty() && creation.joined == 0 && released == 0 && !repeats;
  }
  // What must be equal, beside the members' states, for one to be played for another.
  std::string Condition() const {
    std::string text = prices_apart + prices_pending;
    for (const auto& [call, cost] : costs_) {
      AppendNumbers(&text, {static_cast<uint64_t>(call.operation),
                            static_cast<uint64_t>(call.type),
                            static_cast<uint64_t>(call.reduction), call.root,
                            call.count, call.recorded_ns});
      AppendCost(&text, cost);
    }
    ForEachChannel([&](uint32_t from, uint32_t to, const auto& channel) {
      AppendNumbers(&text, {from, to});
      channel.AppendCondition(&text);
    });
    return text;
  }

  const CreationMeeting& Split(uint32_t sequence) const {
    return splits_[sequence - first_split_];
  }
  CreationMeeting& Split(uint32_t sequence) {
    while (first_split_ + splits_.size() <= sequence) {
      splits_.emplace_back();
      splits_.back().joiners.resize(size());
    }
    return splits_[sequence - first_split_];
  }
  bool IsRetired(uint32_t sequence) const { return sequence < first_split_; }
  void RetireSplits() {
    while (!splits_.empty() && splits_.front().complete) {
      splits_.pop_front();
      ++first_split_;
    }
  }

  std::string identity;
  std::vector<int32_t> members;
  // As the membership stated them to the first member of an init; kept for comparison.
  std::shared_ptr<const std::vector<int32_t>> stated;
  std::vector<uint32_t> ranks;
  std::vector<bool> absent;
  uint32_t present = 0;
  bool repeats = false;  // some process has several members
  CreationMeeting creation;
  uint32_t released = 0;    // members that gave it up
  bool aborted = false;     // one of them without waiting for its operations
  uint64_t operations = 0;  // issued by members and not ended
  // For folding: it has operations that do not treat all members alike; prices by which
  // it was found to differ from communicators like it, and of transfers on their way.
  bool apart = false;
  std::string prices_apart, prices_pending;

 private:
  // By sender; sorted by receiver.
  using Channels = std::vector<
      std::vector<std::pair<uint32_t, std::unique_ptr<TransferChannel<Step>>>>>;

  void Grow() {
    std::vector<CollectiveRendezvous<Step>> grown(
        std::max<size_t>(2, open_.size() * 2));
    for (uint32_t i = 0; i < open_.size(); ++i) {
      grown[(first_open_ + i) % grown.size()] =
          std::move(open_[(first_open_ + i) % open_.size()]);
    }
    open_ = std::move(grown);
  }

  // Collectives first_open_ .. first_open_ + size - 1, by number modulo size; the size
  // is a power of two, so numbers may wrap around.
  std::vector<CollectiveRendezvous<Step>> open_;
  uint32_t first_open_ = 0;
  std::deque<CreationMeeting> splits_;
  uint32_t first_split_ = 0;
  std::vector<std::pair<CollectiveCall, Cost>> costs_;  // sorted
  size_t last_cost_ = 0;                                // asked for
  Channels channels_from_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_COMMUNICATOR_H_
