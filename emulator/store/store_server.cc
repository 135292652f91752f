#include "emulator/store/store_server.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/store/absent_ranks.h"

namespace vrank::emulator {

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Create(uint16_t wanted_port) {
  std::unique_ptr<StoreServer> store(new StoreServer);
  ASSIGN_OR_RETURN(store->server_, LoopbackServer::Create(
                                       wanted_port, "store of the ranks", store.get()));
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
  KeyStore::Replies replies;
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<StoreRequest> request,
                     ReadStoreRequest(&rest));
    if (!request)
      break;
    RETURN_IF_ERROR(Handle(client, *request, &replies));
  }
  in->erase(0, in->size() - rest.size());
  Send(replies);
  return absl::OkStatus();
}

absl::Status StoreServer::Handle(LoopbackServer::Client client,
                                 const StoreRequest& request,
                                 KeyStore::Replies* replies) {
  more_than_looks_ |= request.operation != StoreRequest::Operation::kCheck &&
                      request.operation != StoreRequest::Operation::kPing;
  if (request.operation == StoreRequest::Operation::kValidate) {
    if (request.number != kStoreMagic)
      return absl::InvalidArgumentError("a client speaks another protocol");
    validated_.insert(client);
    in_use_ = true;
  } else if (!validated_.contains(client)) {
    return absl::InvalidArgumentError("a client did not introduce itself");
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
  return keys_.Handle(client, request, replies);
}

void StoreServer::Send(const KeyStore::Replies& replies) {
  for (const auto& [client, bytes] : replies)
    server_->Send(client, bytes);
}

void StoreServer::Gone(LoopbackServer::Client client) {
  keys_.Forget(client);
  validated_.erase(client);
}

absl::Status StoreServer::SetForAbsent() {
  KeyStore::Replies replies;
  for (const std::string& key : keys_.Missing()) {
    if (keys_.Has(key))
      continue;  // set with another one of its group
    if (const auto prefix = GlooPrefix(key)) {
      RETURN_IF_ERROR(PlayAbsent(*prefix, &replies));
      if (keys_.Has(key))
        continue;
    }
    ASSIGN_OR_RETURN(std::string value, ValueOfAbsentRank(key));
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
