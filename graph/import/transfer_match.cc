#include "graph/import/transfer_match.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/import/part_alignment.h"

namespace vrank::graph {
namespace {

constexpr uint32_t kNoChannel = ~uint32_t{0};

// A transfer of a kernel.
struct Place {
  uint32_t rank = 0;  // place among the ranks
  uint32_t use = 0, part = 0;
};

// Transfers from one rank to another in one group, in the order of each side.
struct Channel {
  std::string group;
  int32_t from = 0, to = 0;
  std::vector<Place> sends, receives;
};

// The other side of a transfer.
struct Counterpart {
  uint32_t channel = kNoChannel;  // none
  Place place;
  bool is_buffered = false;  // the send ends before its receive begins
};

class Matcher {
 public:
  Matcher(const std::vector<RankCommunication>& ranks,
          std::map<int32_t, ImportLosses>* losses, CommunicationMatch* match)
      : ranks_(ranks), losses_(*losses), match_(*match) {}

  void Run() {
    CollectChannels();
    for (uint32_t channel = 0; channel < channels_.size(); ++channel)
      Pair(channel);
    JoinChannels();
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      for (uint32_t use = 0; use < ranks_[rank].transfers.size(); ++use)
        Write(rank, use);
  }

 private:
  const TransferUse& UseOf(const Place& place) const {
    return ranks_[place.rank].transfers[place.use];
  }
  const TransferPart& PartAt(const Place& place) const {
    return UseOf(place).parts[place.part];
  }
  const WorkStart& StartOf(const Place& place) const {
    return ranks_[place.rank].dependencies->works[UseOf(place).work];
  }
  Counterpart& CounterpartOf(const Place& place) {
    return counterparts_[place.rank][place.use][place.part];
  }

  void CollectChannels() {
    std::map<std::tuple<std::string, bool, int32_t, int32_t>, uint32_t> numbers;
    counterparts_.resize(ranks_.size());
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankCommunication& one = ranks_[rank];
      for (uint32_t use = 0; use < one.transfers.size(); ++use) {
        const TransferUse& kernel = one.transfers[use];
        counterparts_[rank].emplace_back(kernel.parts.size());
        for (uint32_t part = 0; part < kernel.parts.size(); ++part) {
          const auto [peer, is_send] =
              std::pair(kernel.parts[part].peer, kernel.parts[part].is_send);
          const int32_t from = is_send ? one.rank : peer;
          const int32_t to = is_send ? peer : one.rank;
          const auto [found, fresh] =
              numbers.try_emplace({kernel.group, kernel.is_batch, from, to},
                                  static_cast<uint32_t>(channels_.size()));
          if (fresh)
            channels_.push_back({kernel.group, from, to, {}, {}});
          Channel& channel = channels_[found->second];
          (is_send ? channel.sends : channel.receives).push_back({rank, use, part});
        }
      }
    }
  }

  std::vector<RecordedPart> PartsOf(const std::vector<Place>& places) const {
    std::vector<RecordedPart> parts;
    for (const Place& place : places) {
      RecordedPart part;
      part.time = ranks_[place.rank].recording->works[UseOf(place).work].time;
      part.step = UseOf(place).step;
      part.type = static_cast<uint32_t>(PartAt(place).type);
      part.count = PartAt(place).elements;
      part.meeting = Meeting::kForward;
      parts.push_back(part);
    }
    return parts;
  }

  void Pair(uint32_t number) {
    const Channel& channel = channels_[number];
    if (channel.sends.empty() || channel.receives.empty())
      return;
    const std::vector<RecordedPart> sends = PartsOf(channel.sends);
    const std::vector<RecordedPart> receives = PartsOf(channel.receives);
    const std::vector<size_t> partner = AlignParts(sends, receives);
    size_t last = kNoPart;
    for (size_t i = 0; i < partner.size(); ++i) {
      if (partner[i] == kNoPart || (last != kNoPart && partner[i] <= last))
        continue;
      last = partner[i];
      const Place &send = channel.sends[i], &receive = channel.receives[last];
      const bool is_buffered = IsBuffered(send, sends[i].time, receives[last].time);
      CounterpartOf(send) = {number, receive, is_buffered};
      CounterpartOf(receive) = {number, send, is_buffered};
      match_.clocks.AddTransfer({channel.from, sends[i].time},
                                {channel.to, receives[last].time});
    }
    if (last != kNoPart)
      return;
    const absl::Status why = absl::InvalidArgumentError(fmt::format(
        "group '{}': {} sends of {} to {} and {} receives there, which are not the "
        "same; give recordings of the same steps of one run",
        channel.group, sends.size(), ranks_[channel.sends.front().rank].Subject(),
        ranks_[channel.receives.front().rank].Subject(), receives.size()));
    match_.unpaired.try_emplace(channel.from, why);
    match_.unpaired.try_emplace(channel.to, why);
  }

  // True if the send completed before its receive started, which is possible for a send
  // that fits NCCL's buffer (NCCL_BUFFSIZE, 4 MiB by default). Else the clocks differ.
  bool IsBuffered(const Place& send, const Span& sent, const Span& received) const {
    constexpr uint64_t kBufferBytes = uint64_t{4} << 20;
    const TransferPart& part = PartAt(send);
    return sent.end_ns + kClockNoiseNs < received.begin_ns && part.elements > 0 &&
           part.elements <= kBufferBytes / ElementBytes(part.type);
  }

  // Channels of one kernel need one communicator.
  void JoinChannels() {
    leaders_.resize(channels_.size());
    std::iota(leaders_.begin(), leaders_.end(), 0u);
    for (const auto& uses : counterparts_)
      for (const std::vector<Counterpart>& parts : uses) {
        uint32_t first = kNoChannel;
        for (const Counterpart& part : parts) {
          if (part.channel == kNoChannel)
            continue;
          const uint32_t leader = LeaderOf(part.channel);
          if (first == kNoChannel)
            first = leader;
          leaders_[leader] = first = LeaderOf(first);
        }
      }
    std::map<uint32_t, std::set<int32_t>> members;  // by leader
    std::map<uint32_t, size_t> sizes;
    for (uint32_t i = 0; i < channels_.size(); ++i) {
      members[LeaderOf(i)].insert({channels_[i].from, channels_[i].to});
      ++sizes[LeaderOf(i)];
    }
    std::set<uint32_t> used;
    for (const auto& uses : counterparts_)
      for (const std::vector<Counterpart>& parts : uses)
        for (const Counterpart& part : parts)
          if (part.channel != kNoChannel)
            used.insert(LeaderOf(part.channel));
    for (const uint32_t leader : used) {
      const Channel& channel = channels_[leader];
      groups_[leader] = static_cast<uint32_t>(match_.groups.size());
      match_.groups.push_back(
          {sizes[leader] == 1
               ? fmt::format("rank {} to rank {}", channel.from, channel.to)
               : fmt::format("transfers of '{}'", channel.group),
           {members[leader].begin(), members[leader].end()},
           true});
    }
  }
  uint32_t LeaderOf(uint32_t channel) const {
    while (leaders_[channel] != channel)
      channel = leaders_[channel];
    return channel;
  }

  void Write(uint32_t rank, uint32_t use) {
    const TransferUse& kernel = ranks_[rank].transfers[use];
    const std::vector<Counterpart>& others = counterparts_[rank][use];
    MatchedTransfers made;
    for (uint32_t part = 0; part < others.size(); ++part) {
      const Counterpart& other = others[part];
      if (other.channel == kNoChannel)
        continue;
      made.group = groups_.at(LeaderOf(other.channel));
      const std::vector<int32_t>& members = match_.groups[made.group].members;
      const auto peer =
          std::lower_bound(members.begin(), members.end(), kernel.parts[part].peer);
      // A send of nothing does not wait for its receive (RecordedNetwork).
      made.transfers.push_back(Transfer{
          .bytes = other.is_buffered ? 0 : BytesOf({rank, use, part}, other.place),
          .peer = static_cast<uint32_t>(peer - members.begin()),
          .is_send = kernel.parts[part].is_send ? 1u : 0u});
    }
    if (made.transfers.size() != others.size() || !kernel.is_complete)
      ++losses_[ranks_[rank].rank][ImportLoss::kPointToPoint];
    if (made.transfers.empty())
      return;
    made.then_ns = LengthOf({rank, use, 0});
    match_.transfers[ranks_[rank].rank][kernel.work] = std::move(made);
  }

  // The same on both sides. One where a cluster cannot price the transfer: neither side
  // states its size, or a kernel has other transfers, too, whose peers are not known.
  uint64_t BytesOf(const Place& place, const Place& counterpart) const {
    constexpr uint64_t kMost = uint64_t{1} << 50;  // of no GPU
    const TransferPart &own = PartAt(place), &other = PartAt(counterpart);
    const uint64_t elements = std::max(own.elements, other.elements);
    const uint64_t size = ElementBytes(own.elements != 0 ? own.type : other.type);
    const bool differ = own.elements != 0 && other.elements != 0 &&
                        (own.elements != other.elements || own.type != other.type);
    if (differ || elements > kMost / size || !IsWhole(place) || !IsWhole(counterpart))
      return 1;
    return std::max<uint64_t>(1, elements * size);
  }
  bool IsWhole(const Place& place) const {
    const std::vector<Counterpart>& others = counterparts_[place.rank][place.use];
    return UseOf(place).is_complete &&
           std::none_of(others.begin(), others.end(), [](const Counterpart& other) {
             return other.channel == kNoChannel;
           });
  }

  // How long a kernel takes once it has met all of its counterparts.
  int64_t LengthOf(const Place& own) const {
    const std::vector<Counterpart>& others = counterparts_[own.rank][own.use];
    const TransferUse& kernel = UseOf(own);
    const WorkStart& start = StartOf(own);
    const int64_t whole_ns = start.end_ns - start.begin_ns;
    int64_t shortest_ns = whole_ns, latest_ns = start.begin_ns;
    bool alone = kernel.is_complete && others.size() == 1;
    for (uint32_t part = 0; part < others.size(); ++part) {
      const Counterpart& other = others[part];
      const bool waits = !other.is_buffered || !kernel.parts[part].is_send;
      if (other.channel == kNoChannel || !waits)
        continue;
      const WorkStart& theirs = StartOf(other.place);
      latest_ns = std::max(latest_ns, theirs.begin_ns);
      if (!other.is_buffered)
        shortest_ns = std::min(shortest_ns, theirs.end_ns - theirs.begin_ns);
      alone = alone && UseOf(other.place).parts.size() == 1;
    }
    // The side that came last did not wait; no clock is needed to say so.
    if (alone || latest_ns > start.end_ns)
      return shortest_ns;
    // A peer of several transfers waits for others, too.
    return start.end_ns - latest_ns;
  }

  const std::vector<RankCommunication>& ranks_;
  std::map<int32_t, ImportLosses>& losses_;
  CommunicationMatch& match_;
  std::vector<Channel> channels_;
  // By rank, by use, by part.
  std::vector<std::vector<std::vector<Counterpart>>> counterparts_;
  std::vector<uint32_t> leaders_;        // by channel, of those with one communicator
  std::map<uint32_t, uint32_t> groups_;  // by leader
};

}  // namespace

void MatchTransfers(const std::vector<RankCommunication>& ranks,
                    std::map<int32_t, ImportLosses>* losses,
                    CommunicationMatch* match) {
  Matcher(ranks, losses, match).Run();
}

}  // namespace vrank::graph
