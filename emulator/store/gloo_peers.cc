#include "emulator/store/gloo_peers.h"

#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/machine_memory.h"
#include "base/status_macros.h"

namespace vrank::emulator {
namespace {

// A greeting says who meets: group, absent rank, real rank.
constexpr int kRankBits = 20;
constexpr uint64_t kRankMask = (uint64_t{1} << kRankBits) - 1;

int64_t Greeting(size_t group, GlooGroup::Pair pair) {
  return static_cast<int64_t>(
      (uint64_t{group} << kRankBits | pair.absent) << kRankBits | pair.real);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlooPeers>> GlooPeers::Create() {
  std::unique_ptr<GlooPeers> peers(new GlooPeers);
  ASSIGN_OR_RETURN(peers->server_,
                   LoopbackServer::Create(0, "Gloo's absent ranks", peers.get()));
  if (const uint64_t memory = ReadMachineMemory().total; memory != 0)
    peers->most_bytes_ = memory;
  return peers;
}

absl::StatusOr<std::map<uint32_t, std::string>> GlooPeers::Play(
    const std::map<uint32_t, GlooAddress>& real) {
  const GlooAddress& like = real.begin()->second;
  const auto size = static_cast<uint32_t>(like.greetings.size());
  if (size > kRankMask)
    return absl::UnimplementedError(fmt::format(
        "a Gloo group has {} ranks; at most {} are played", size, kRankMask));
  const auto socket = LoopbackSocket(like.socket, server_->port());
  if (!socket)
    return absl::UnimplementedError(
        "a Gloo group listens at an address of IPv6, where vrank plays no ranks: set "
        "GLOO_SOCKET_IFNAME=lo for the program");
  std::set<uint32_t> absent;
  for (uint32_t rank = 0; rank < size; ++rank)
    if (!real.contains(rank))
      absent.insert(rank);
  std::map<uint32_t, std::string> values;
  for (const uint32_t rank : absent) {
    GlooAddress address{"vrank", *socket, {}};
    for (uint32_t other = 0; other < size; ++other)
      address.greetings.push_back(Greeting(groups_.size(), {rank, other}));
    values.emplace(rank, WriteGlooAddress(address));
  }
  groups_.emplace_back(size, std::move(absent));
  return values;
}

absl::StatusOr<GlooPeers::Place> GlooPeers::Greeted(int64_t greeting) const {
  const auto bits = static_cast<uint64_t>(greeting);
  const Place place{bits >> 2 * kRankBits,
                    {static_cast<uint32_t>(bits >> kRankBits & kRankMask),
                     static_cast<uint32_t>(bits & kRankMask)}};
  if (place.group >= groups_.size() || !groups_[place.group].Has(place.pair))
    return absl::InvalidArgumentError(fmt::format(
        "its greeting {:#x} is none that an absent rank of a Gloo group has given out",
        bits));
  return place;
}

absl::Status GlooPeers::Received(LoopbackServer::Client client, std::string* in) {
  std::string_view rest = *in;
  auto place = places_.find(client);
  if (place == places_.end()) {
    int64_t greeting;
    if (rest.size() < sizeof greeting)
      return absl::OkStatus();
    std::memcpy(&greeting, rest.data(), sizeof greeting);
    rest.remove_prefix(sizeof greeting);
    ASSIGN_OR_RETURN(const Place found, Greeted(greeting));
    place = places_.emplace(client, found).first;
    clients_[{found.group, found.pair}] = client;
    server_->Introduced(client);
  }
  const auto [group, pair] = place->second;
  absl::Status status;
  while (!server_->Congested(client)) {
    const auto message = ReadGlooMessage(&rest, most_bytes_);
    status = message.status();
    if (!status.ok() || !message->has_value())
      break;
    GlooGroup::Replies replies;
    groups_[group].Handle(pair, **message, &replies);
    Send(group, replies);
  }
  in->erase(0, in->size() - rest.size());
  return status;
}

void GlooPeers::Send(size_t group, const GlooGroup::Replies& replies) {
  for (const auto& [pair, bytes] : replies)
    if (const auto client = clients_.find({group, pair}); client != clients_.end())
      server_->Send(client->second, bytes);
}

void GlooPeers::Gone(LoopbackServer::Client client) {
  const auto place = places_.find(client);
  if (place == places_.end())
    return;
  const auto [group, pair] = place->second;
  clients_.erase({group, pair});
  places_.erase(place);
  if (leavers_.emplace(group, pair.real).second)
    Leave(group, pair.real);
}

// Gloo ends its connections one after the other, each after a tick of its loop of up to
// 10 ms (gloo/transport/tcp/loop.cc, unregisterDescriptor), unless the peer was first:
// among 8,192 ranks that all leave at once, nearly every peer is.
void GlooPeers::Leave(size_t group, uint32_t real) {
  for (auto at = clients_.lower_bound({group, {}});
       at != clients_.end() && at->first.first == group; ++at)
    if (at->first.second.real == real)
      server_->EndSending(at->second);
}

bool GlooPeers::HasPending() const {
  for (const GlooGroup& group : groups_)
    if (group.HasPending())
      return true;
  return false;
}

void GlooPeers::AnswerPending() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    GlooGroup::Replies replies;
    groups_[i].AnswerPending(&replies);
    Send(i, replies);
  }
}

uint64_t GlooPeers::mirrored_bytes() const {
  uint64_t bytes = 0;
  for (const GlooGroup& group : groups_)
    bytes += group.mirrored_bytes();
  return bytes;
}

uint64_t GlooPeers::copied_objects() const {
  uint64_t objects = 0;
  for (const GlooGroup& group : groups_)
    objects += group.copied_objects();
  return objects;
}

std::map<std::string, uint64_t> GlooPeers::zero_bytes() const {
  std::map<std::string, uint64_t> bytes;
  for (const GlooGroup& group : groups_)
    for (const auto& [operation, zeros] : group.zeros())
      bytes[std::string(operation)] += zeros.bytes;
  return bytes;
}

std::vector<std::string> GlooPeers::TakeNotes() {
  std::vector<std::string> notes;
  for (const GlooGroup& group : groups_)
    for (const auto& [operation, zeros] : group.zeros())
      if (operation != "send" && noted_.insert(operation).second)
        notes.push_back(fmt::format(
            "{} in a Gloo group of {} ranks: rank {} of the group is not real, and "
            "what it would have sent reaches rank {} as zeros, {}; where the program "
            "needs it, add that rank to --real",
            operation, group.size(), zeros.first.absent, zeros.first.real,
            operation.find("reduce") != std::string_view::npos
                ? "and so does a part of the result"
                : "from which no object can be read"));
  return notes;
}

}  // namespace vrank::emulator
