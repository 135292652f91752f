// See channels.h.

#include "graph/sweep/channels.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/fold/view.h"

namespace vrank::graph {

absl::Status ChannelMaker::Bind(SweepBlock& block, const SweepCode::Meeting& meeting,
                                SweepBinding* binding) {
  const uint32_t number = block.code->communicators[meeting.communicator].number;
  const auto& group = block.code->program->details().transfer_groups[meeting.details];
  StampLanes dearest(block.stride);
  for (uint32_t place = 0; place < group.size(); ++place) {
    for (uint32_t lane = 0; lane < block.ranks.size(); ++lane) {
      const uint32_t rank = block.ranks[lane];
      const auto own = job_.bindings[rank].find(number);
      if (own == job_.bindings[rank].end())
        return absl::UnimplementedError("a rank uses a communicator that it has not");
      const CommunicatorInstance& instance = job_.instances[own->second.instance];
      const uint32_t peer = instance.members[PeerOf(job_, rank, number, group[place])];
      const bool send = group[place].is_send != 0;
      const uint32_t from = send ? rank : peer, to = send ? peer : rank;
      const int64_t ns =
          network_.Transfer(group[place].bytes, WorldRank(from), WorldRank(to))
              .duration.nanoseconds();
      dearest[lane] = std::max(dearest[lane], ns);
      uses_.push_back({&block, meeting.communicator, meeting.details, place, from, to,
                       own->second.instance, group[place].peer, send});
    }
  }
  layout_.costs.push_back(std::move(dearest));
  binding->cost = &layout_.costs.back();
  return absl::OkStatus();
}

absl::Status ChannelMaker::Make() {
  if (absl::Status status = PairUp(); !status.ok())
    return status;
  if (absl::Status status = Open(); !status.ok())
    return status;
  Connect();
  return absl::OkStatus();
}

absl::Status ChannelMaker::PairUp() {
  for (const Use& use : uses_) {
    Ends& ends = pairs_[{use.instance, use.from, use.to}];
    uint32_t& peer = use.is_send ? ends.sender : ends.receiver;
    if (peer != kNone && peer != use.peer)
      return absl::UnimplementedError("one rank goes by two numbers");
    peer = use.peer;
    (use.is_send ? ends.sends_on : ends.receives_on) = use.communicator;
  }
  return absl::OkStatus();
}

// Pairs that exchange in one order share a channel.
absl::Status ChannelMaker::Open() {
  // Blocks, their places of the communicator, the peers that their programs state.
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;
  std::map<Key, std::pair<ChannelPairs, std::vector<Ends*>>> made;
  for (auto& [pair, ends] : pairs_) {
    const auto& [instance, from, to] = pair;
    if (ends.sender == kNone || ends.receiver == kNone)
      return absl::UnimplementedError("a transfer has one side only");
    const SweepLayout::Seat &sender = layout_.seats[from],
                            &receiver = layout_.seats[to];
    auto& [channel, members] = made[{sender.block, receiver.block, ends.sends_on,
                                     ends.receives_on, ends.sender, ends.receiver}];
    const uint64_t credit =
        network_.TransferCreditBytes(WorldRank(from), WorldRank(to));
    if (!members.empty() && channel.credit != credit)
      return absl::UnimplementedError("credit differs between ranks of a class");
    channel.credit = credit;
    channel.from = layout_.blocks[sender.block].get();
    channel.to = layout_.blocks[receiver.block].get();
    channel.from_communicator = ends.sends_on;
    channel.to_communicator = ends.receives_on;
    channel.from_lane.push_back(sender.lane);
    channel.to_lane.push_back(receiver.lane);
    channel.from_rank.push_back(WorldRank(from));
    channel.to_rank.push_back(WorldRank(to));
    members.push_back(&ends);
  }
  for (auto& [key, channel] : made) {
    layout_.channels.emplace_back(std::move(channel.first), &network_, layout_.ledgers);
    for (Ends* ends : channel.second)
      ends->channel = &layout_.channels.back();
  }
  return absl::OkStatus();
}

// Tells each group of each block which channels it goes through.
void ChannelMaker::Connect() {
  using Group = std::tuple<const SweepBlock*, uint32_t, uint32_t>;
  std::map<Group, std::vector<SweepBinding::Part>> parts;
  std::set<std::tuple<Group, uint32_t, SweepChannel*>> seen;
  for (const Use& use : uses_) {
    SweepChannel* const channel = pairs_.at({use.instance, use.from, use.to}).channel;
    const Group group{use.block, use.communicator, use.group};
    if (!seen.emplace(group, use.place, channel).second)
      continue;
    const Transfer& transfer =
        use.block->code->program->details().transfer_groups[use.group][use.place];
    parts[group].push_back({channel, use.is_send, use.place, transfer.bytes});
  }
  for (auto& block : layout_.blocks) {
    for (uint32_t m = 0; m < block->bindings.size(); ++m) {
      const SweepCode::Meeting& meeting = block->code->meetings[m];
      if (meeting.kind == OpKind::kTransfers)
        block->bindings[m].parts =
            parts[{block.get(), meeting.communicator, meeting.details}];
    }
  }
}

}  // namespace vrank::graph
