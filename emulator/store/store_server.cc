#include "emulator/store/store_server.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/decision_log.h"
#include "base/new_group.h"
#include "base/status_macros.h"
#include "emulator/store/absent_ranks.h"

namespace vrank::emulator {

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Create(
    uint16_t wanted_port, RankOfPort rank_of_port, Acceptor::PeerOf peer_of,
    Acceptor::Limits limits) {
  std::unique_ptr<StoreServer> store(new StoreServer(std::move(rank_of_port)));
  ASSIGN_OR_RETURN(store->server_,
                   LoopbackServer::Create(wanted_port, "store of the ranks",
                                          store.get(), std::move(peer_of), limits));
  ASSIGN_OR_RETURN(store->gloo_, GlooPeers::Create());
  store->epoll_ = epoll_create1(EPOLL_CLOEXEC);
  for (const int fd : {store->server_->poll_fd(), store->gloo_->poll_fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(store->epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
      return absl::InternalError(
          fmt::format("store of the ranks: epoll_ctl: {}", strerror(errno)));
  }
  return store;
}

StoreServer::~StoreServer() {
  if (epoll_ >= 0)
    close(epoll_);
}

absl::StatusOr<StoreServer::Heard> StoreServer::HandleEvents() {
  more_than_looks_ = false;
  ASSIGN_OR_RETURN(const bool asked, server_->HandleEvents());
  ASSIGN_OR_RETURN(const bool said, gloo_->HandleEvents());
  if (said || more_than_looks_)
    return Heard::kMore;
  return asked ? Heard::kLooks : Heard::kNothing;
}

absl::Status StoreServer::Received(LoopbackServer::Client client, std::string* in) {
  std::string_view rest = *in;
  absl::Status status;
  while (status.ok() && !server_->Congested(client)) {
    if (!rest.empty() && !validated_.contains(client))
      RETURN_IF_ERROR(CheckIntroduction(rest));
    const absl::StatusOr<std::optional<StoreRequest>> request = ReadStoreRequest(&rest);
    status = request.status();
    if (!status.ok() || !request->has_value())
      break;
    KeyStore::Replies replies;
    status = Handle(client, **request, &replies);
    Send(replies);
  }
  in->erase(0, in->size() - rest.size());
  // What is wrong with a message is the job's fault where a rank sent it alone.
  if (!status.ok() && !RankOf(client))
    return absl::InvalidArgumentError(status.message());
  return status;
}

// Before a client has introduced itself, nothing else of it is looked at.
absl::Status StoreServer::CheckIntroduction(std::string_view bytes) {
  std::string introduction(1, static_cast<char>(StoreRequest::Operation::kValidate));
  AppendNumber(&introduction, kStoreMagic, sizeof kStoreMagic);
  if (bytes.substr(0, introduction.size()) !=
      std::string_view(introduction).substr(0, bytes.size()))
    return absl::InvalidArgumentError(
        "what it sent first is not what a client of PyTorch's TCPStore sends");
  return absl::OkStatus();
}

absl::Status StoreServer::Handle(LoopbackServer::Client client,
                                 const StoreRequest& request,
                                 KeyStore::Replies* replies) {
  more_than_looks_ |= request.operation != StoreRequest::Operation::kCheck &&
                      request.operation != StoreRequest::Operation::kPing;
  if (request.operation == StoreRequest::Operation::kValidate) {
    if (request.number != kStoreMagic)
      return absl::InvalidArgumentError("a client introduces itself as another one");
    validated_.insert(client);
    server_->Introduced(client);
    in_use_ = true;
  }
  if (request.operation == StoreRequest::Operation::kSet)
    for (const std::string& key : request.keys)
      if (played_.contains(key))
        return absl::FailedPreconditionError(
            fmt::format("a real rank joins a Gloo group (store key '{}') after the "
                        "others waited so "
                        "long that it was played as absent: its ranks make groups in "
                        "another order, "
                        "or wait for each other; make all ranks of the group real",
                        key));
  RETURN_IF_ERROR(CheckSetsOnce(client, request));
  if (request.operation == StoreRequest::Operation::kSet)
    TellOfPair(request.keys[0], request.values[0]);
  return keys_.Handle(client, request, replies);
}

std::optional<int32_t> StoreServer::RankOf(LoopbackServer::Client client) const {
  const uint16_t port = server_->PortOf(client);
  return port == 0 ? std::nullopt : rank_of_port_(port);
}

std::vector<StoreServer::Wait> StoreServer::Waits() const {
  std::vector<Wait> waits;
  for (const KeyStore::Wait& wait : keys_.Waits())
    waits.push_back({RankOf(wait.client), wait.key});
  return waits;
}

// A rank may set a key again: it makes its groups anew.
absl::Status StoreServer::CheckSetsOnce(LoopbackServer::Client client,
                                        const StoreRequest& request) {
  if (request.operation != StoreRequest::Operation::kSet ||
      !HoldsCommunicatorId(request.keys[0]))
    return absl::OkStatus();
  const std::string& key = request.keys[0];
  const std::string* const known = keys_.Find(key);
  const auto [setter, is_new] = set_by_.try_emplace(key, client);
  if (is_new || known == nullptr || *known == request.values[0])
    return absl::OkStatus();
  const std::optional<int32_t> before = RankOf(setter->second), now = RankOf(client);
  setter->second = client;
  if (!before.has_value() || !now.has_value() || *before == *now)
    return absl::OkStatus();
  return absl::AbortedError(fmt::format(
      "ranks {} and {} set store key '{}' to different values: it holds {}, so they "
      "call different groups by one name; {}",
      std::min(*before, *now), std::max(*before, *now), key, MeaningOfKey(key),
      kSameNewGroups));
}

void StoreServer::TellOfPair(const std::string& key, const std::string& id) const {
  if (on_pair_ == nullptr)
    return;
  if (const auto pair = PairOf(key))
    on_pair_(id, *pair);
}

void StoreServer::Send(const KeyStore::Replies& replies) {
  for (const auto& [client, bytes] : replies)
    server_->Send(client, bytes);
}

void StoreServer::Gone(LoopbackServer::Client client) {
  keys_.Forget(client);
  validated_.erase(client);
  std::erase_if(set_by_, [client](const auto& set) { return set.second == client; });
}

std::vector<std::string> StoreServer::TakeNotes() {
  std::vector<std::string> notes = gloo_->TakeNotes();
  for (Strangers* strangers : {&server_->strangers(), &gloo_->strangers()})
    for (std::string& note : strangers->TakeNotes())
      notes.push_back(std::move(note));
  return notes;
}

std::map<std::string, uint64_t> StoreServer::foreign_connections() const {
  std::map<std::string, uint64_t> counts = server_->strangers().counts();
  counts.merge(std::map(gloo_->strangers().counts()));
  return counts;
}

absl::Status StoreServer::SetForAbsent() {
  KeyStore::Replies replies;
  std::vector<std::string> missing = keys_.Missing();
  // What a stage of a pipeline waits for comes first: another one may hold up a rank
  // that is real and sets the key of its group later.
  if (std::any_of(missing.begin(), missing.end(), PairOf))
    std::erase_if(missing, [](const std::string& key) { return !PairOf(key); });
  for (const std::string& key : missing) {
    if (keys_.Has(key))
      continue;  // set with another one of its group
    if (const auto prefix = GlooPrefix(key)) {
      RETURN_IF_ERROR(PlayAbsent(*prefix, &replies));
      if (keys_.Has(key))
        continue;
    }
    ASSIGN_OR_RETURN(std::string value, ValueOfAbsentRank(key));
    LOG_DECISION(store, 1, "'{}', {} bytes, is set for an absent rank", key,
                 value.size());
    TellOfPair(key, value);
    keys_.Set(key, std::move(value), &replies);
    ++set_for_absent_;
  }
  Send(replies);
  gloo_->AnswerPending();
  return absl::OkStatus();
}

absl::Status StoreServer::PlayAbsent(const std::string& gloo_prefix,
                                     KeyStore::Replies* replies) {
  std::map<uint32_t, GlooAddress> real;
  for (const auto& [rank, value] : keys_.Numbered(gloo_prefix))
    if (const auto address = ReadGlooAddress(value);
        address && !address->greetings.empty())
      real.emplace(rank, *address);
  if (real.empty())
    return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto values, gloo_->Play(real));
  for (const auto& [rank, value] : values) {
    const std::string key = fmt::format("{}{}", gloo_prefix, rank);
    keys_.Set(key, value, replies);
    played_.insert(key);
    ++set_for_absent_;
  }
  return absl::OkStatus();
}

}  // namespace vrank::emulator
