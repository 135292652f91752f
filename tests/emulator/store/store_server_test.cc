// The server from the side of its clients, over loopback.

#include "emulator/store/store_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Operation = StoreRequest::Operation;

// The ports' ranks do not matter.
const StoreServer::RankOfPort kNoRank = [](uint16_t) {
  return std::optional<int32_t>();
};
constexpr Acceptor::Limits kFewSilent{2, std::chrono::milliseconds(100)};

std::string Head(Operation operation) {
  return std::string(1, static_cast<char>(operation));
}
std::string Validation(uint32_t magic = kStoreMagic) {
  std::string bytes = Head(Operation::kValidate);
  AppendNumber(&bytes, magic, 4);
  return bytes;
}
std::string Wait(const std::string& key) {
  std::string bytes = Head(Operation::kWait);
  AppendNumber(&bytes, 1, 8);
  AppendText(&bytes, key);
  return bytes;
}

std::string Set(const std::string& key, const std::string& value) {
  std::string bytes = Head(Operation::kSet);
  AppendText(&bytes, key);
  AppendText(&bytes, value);
  return bytes;
}

class StoreServerTest : public testing::Test {
 protected:
  StoreServerTest()
      : server_(std::move(StoreServer::Create(0, [this](uint16_t port) {
                            return RankOf(port);
                          }).value())) {}
  // Each connection is a rank's, in their order; ranks_ may say otherwise.
  std::optional<int32_t> RankOf(uint16_t port) const {
    for (size_t i = 0; i < clients_.size(); ++i) {
      sockaddr_in own{};
      socklen_t length = sizeof own;
      getsockname(clients_[i], reinterpret_cast<sockaddr*>(&own), &length);
      if (ntohs(own.sin_port) == port)
        return i < ranks_.size() ? ranks_[i] : static_cast<int32_t>(i);
    }
    return std::nullopt;
  }
  ~StoreServerTest() override {
    for (const int fd : clients_)
      close(fd);
  }

  int Connect() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval limit{10, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    clients_.push_back(fd);
    return fd;
  }
  absl::Status Serve() {
    heard_ = StoreServer::Heard::kNothing;
    for (int i = 0; i < 3; ++i) {  // accept, read, close
      const auto heard = server_->HandleEvents();
      if (!heard.ok())
        return heard.status();
      heard_ = std::max(heard_, *heard);
    }
    return absl::OkStatus();
  }
  absl::Status Say(int fd, const std::string& bytes) {
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    return Serve();
  }
  std::string Hear(int fd, size_t bytes) {
    std::string heard(bytes, '?');
    EXPECT_EQ(recv(fd, heard.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
    return heard;
  }

  // Whether the server has closed the connection.
  static bool HasEnded(int fd) {
    char byte;
    const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  std::unique_ptr<StoreServer> server_;
  std::vector<int> clients_;
  std::vector<std::optional<int32_t>> ranks_;
  StoreServer::Heard heard_ = StoreServer::Heard::kNothing;
};

TEST_F(StoreServerTest, AnswersAClient) {
  const int fd = Connect();
  EXPECT_FALSE(server_->in_use());
  std::string ping = Head(Operation::kPing);
  AppendNumber(&ping, 0x01020304, 4);
  ASSERT_TRUE(Say(fd, Validation() + ping).ok());
  EXPECT_EQ(Hear(fd, 4), "\4\3\2\1");
  EXPECT_TRUE(server_->in_use());
}

// What a heartbeat thread asks for ever is no sign that the job goes on.
TEST_F(StoreServerTest, TellsALookFromMore) {
  const int fd = Connect();
  ASSERT_TRUE(Say(fd, Validation()).ok());
  EXPECT_EQ(heard_, StoreServer::Heard::kMore);
  std::string look = Head(Operation::kCheck);
  AppendNumber(&look, 1, 8);
  AppendText(&look, "key");
  ASSERT_TRUE(Say(fd, look).ok());
  EXPECT_EQ(heard_, StoreServer::Heard::kLooks);
  ASSERT_TRUE(Say(fd, look + Wait("key")).ok());
  EXPECT_EQ(heard_, StoreServer::Heard::kMore);
  ASSERT_TRUE(Serve().ok());
  EXPECT_EQ(heard_, StoreServer::Heard::kNothing);
}

TEST_F(StoreServerTest, AnotherClientsValueEndsAWait) {
  const int waiting = Connect();
  const int setting = Connect();
  ASSERT_TRUE(Say(waiting, Validation() + Wait("key")).ok());
  EXPECT_TRUE(server_->HasMissing());
  ASSERT_TRUE(Say(setting, Validation() + Set("key", "value")).ok());
  EXPECT_EQ(Hear(waiting, 1), std::string(1, '\0'));
  EXPECT_FALSE(server_->HasMissing());
  EXPECT_EQ(server_->set_for_absent(), 0u);
}

TEST_F(StoreServerTest, SaysWhichRankWaitsForWhat) {
  const int setting = Connect(), waiting = Connect();
  ASSERT_TRUE(Say(setting, Validation() + Set("there", "")).ok());
  ASSERT_TRUE(Say(waiting, Validation() + Wait("missing")).ok());
  const auto waits = server_->Waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].rank, 1);
  EXPECT_EQ(waits[0].key, "missing");
}

// new_group([0, 3]) on one rank and new_group([1, 2]) on another one have one name.
TEST_F(StoreServerTest, TwoRanksThatSetOneCommunicatorsIdAreNamed) {
  const std::string key = "/default_pg/0//1//cuda//0";
  const int one = Connect(), other = Connect();
  ASSERT_TRUE(Say(one, Validation() + Set(key, "a")).ok());
  ASSERT_TRUE(Say(one, Set(key, "b")).ok()) << "a rank may make its groups anew";
  ASSERT_TRUE(Say(other, Validation() + Set(key, "b")).ok()) << "the same value";
  const absl::Status status = Say(other, Set(key, "c"));
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ranks 0 and 1 set store key '" + key + "'"),
                    HasSubstr("every rank has to call new_group")));
}

TEST_F(StoreServerTest, ConnectionsOfOneRankAndOtherKeysMayDiffer) {
  ranks_ = {0, 0, 1};
  const int first = Connect(), second = Connect(), other = Connect();
  const std::string key = "/default_pg/0//cuda//0";
  ASSERT_TRUE(Say(first, Validation() + Set(key, "a") + Set("mine", "a")).ok());
  EXPECT_TRUE(Say(second, Validation() + Set(key, "b")).ok());
  EXPECT_TRUE(Say(other, Validation() + Set("mine", "b")).ok());
}

TEST_F(StoreServerTest, SetsWhatAbsentRanksWouldHaveSet) {
  const int fd = Connect();
  ASSERT_TRUE(Say(fd, Validation() + Wait("/default_pg/0//cuda//0")).ok());
  ASSERT_TRUE(server_->SetForAbsent().ok());
  EXPECT_EQ(Hear(fd, 1), std::string(1, '\0'));
  EXPECT_EQ(server_->set_for_absent(), 1u);
  ASSERT_TRUE(Say(fd, Wait("what_is_this")).ok());
  EXPECT_THAT(server_->SetForAbsent().ToString(), HasSubstr("what_is_this"));
}

TEST_F(StoreServerTest, AWaitEndsWithItsClient) {
  const int fd = Connect();
  ASSERT_TRUE(Say(fd, Validation() + Wait("key")).ok());
  shutdown(fd, SHUT_RDWR);
  ASSERT_TRUE(Serve().ok());
  EXPECT_FALSE(server_->HasMissing());
}

TEST_F(StoreServerTest, RequestsMayComeInPieces) {
  const int fd = Connect();
  for (const char byte : Validation() + Wait("key"))
    ASSERT_TRUE(Say(fd, std::string(1, byte)).ok());
  EXPECT_TRUE(server_->HasMissing());
}

TEST_F(StoreServerTest, DisconnectsWhatIsNoClientAndServesTheOthers) {
  const int client = Connect();
  ASSERT_TRUE(Say(client, Validation() + Wait("key")).ok());
  std::string huge = Validation() + Head(Operation::kSet);
  AppendNumber(&huge, uint64_t{1} << 29, 8);
  std::string sum = Validation() + Set("text", "x") + Head(Operation::kAdd);
  AppendText(&sum, "text");
  AppendNumber(&sum, 1, 8);
  const std::string malformed[] = {Validation(1),       Wait("key"),
                                   std::string(1, '?'), "GET / HTTP/1.0\r\n\r\n",
                                   huge + "aaaa",       sum};
  for (const std::string& bytes : malformed) {
    const int stranger = Connect();
    ASSERT_TRUE(Say(stranger, bytes).ok());
    EXPECT_TRUE(HasEnded(stranger));
  }
  EXPECT_THAT(server_->TakeNotes(), ElementsAre(HasSubstr("first is not what")));
  EXPECT_THAT(server_->foreign_connections(),
              ElementsAre(Pair(HasSubstr("malformed"), std::size(malformed))));
  ASSERT_TRUE(Say(client, Set("key", "value")).ok());
  EXPECT_EQ(Hear(client, 1), std::string(1, '\0'));
}

// An operation that PyTorch has and vrank has not: the job cannot run.
TEST_F(StoreServerTest, WhatARankAsksInVainIsAnError) {
  EXPECT_TRUE(absl::IsUnimplemented(Say(Connect(), Validation() + "\x0e")));
}

// A stranger may know how a client of a store introduces itself.
TEST_F(StoreServerTest, WhatAStrangerAsksInVainEndsItsConnectionAlone) {
  ranks_ = {std::nullopt, std::nullopt, 0};
  for (const std::string operation : {"\x0e", "c"}) {
    const int stranger = Connect();
    EXPECT_TRUE(Say(stranger, Validation() + operation).ok());
    EXPECT_TRUE(HasEnded(stranger));
  }
  EXPECT_THAT(server_->TakeNotes(), ElementsAre(HasSubstr("is not supported")));
  const int client = Connect();
  ASSERT_TRUE(Say(client, Validation() + Set("key", "value")).ok());
}

TEST_F(StoreServerTest, ProcessesOfOtherUsersAreTurnedAway) {
  Peer peer;
  server_ =
      std::move(StoreServer::Create(0, kNoRank, [&peer](int) { return peer; }).value());
  using Kind = Peer::Kind;
  const uid_t other = geteuid() + 1;
  for (const auto& [who, welcome] : {std::pair(Peer{Kind::kUser, geteuid()}, true),
                                     {Peer{Kind::kUser, 0}, true},
                                     {Peer{Kind::kUnknown, 0}, true},
                                     {Peer{Kind::kUser, other}, false},
                                     {Peer{Kind::kGone, 0}, false}}) {
    peer = who;
    const int fd = Connect();
    ASSERT_TRUE(Serve().ok());
    EXPECT_EQ(HasEnded(fd), !welcome);
  }
  EXPECT_THAT(server_->TakeNotes(), ElementsAre(HasSubstr(std::to_string(other))));
  EXPECT_THAT(server_->foreign_connections(),
              ElementsAre(Pair(HasSubstr("of another user"), 1)));
}

// Clients that are slow to introduce themselves keep a place for a while.
TEST_F(StoreServerTest, SilentConnectionsMakeRoom) {
  server_ = std::move(StoreServer::Create(0, kNoRank, nullptr, kFewSilent).value());
  const int silent = Connect(), late = Connect();
  ASSERT_TRUE(Serve().ok());
  const int client = Connect();
  const std::string hello = Validation() + Set("key", "value") + Wait("key");
  ASSERT_TRUE(Say(client, hello).ok());
  EXPECT_FALSE(HasEnded(silent));
  std::this_thread::sleep_for(kFewSilent.patience);
  send(late, hello.data(), hello.size(), 0);
  ASSERT_TRUE(Serve().ok());
  EXPECT_EQ(Hear(client, 1), std::string(1, '\0'));
  EXPECT_EQ(Hear(late, 1), std::string(1, '\0'));
}

TEST_F(StoreServerTest, AFloodOfSilentConnectionsEndsNothing) {
  server_ = std::move(StoreServer::Create(0, kNoRank, nullptr, kFewSilent).value());
  for (int i = 0; i < 20; ++i)
    Connect();
  const int client = Connect();
  const std::string hello = Validation() + Set("key", "value") + Wait("key");
  send(client, hello.data(), hello.size(), 0);
  // Two of the silent ones at a time give up their places.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  pollfd reply{client, POLLIN, 0};
  while (poll(&reply, 1, 0) == 0 && std::chrono::steady_clock::now() < end) {
    pollfd ready{server_->poll_fd(), POLLIN, 0};
    poll(&ready, 1, 1000);
    ASSERT_TRUE(server_->HandleEvents().ok());
  }
  EXPECT_EQ(Hear(client, 1), std::string(1, '\0'));
}

// Where no descriptor is left, the server still turns others away, and sleeps.
TEST_F(StoreServerTest, NeitherSpinsNorStopsWithoutDescriptors) {
  Peer peer{Peer::Kind::kUser, geteuid() + 1};
  server_ =
      std::move(StoreServer::Create(0, kNoRank, [&peer](int) { return peer; }).value());
  const int first = Connect(), second = Connect();
  std::vector<int> all;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit few{std::min<rlim_t>(limit.rlim_cur, 256), limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  for (int fd = dup(first); fd >= 0; fd = dup(first))
    all.push_back(fd);
  const absl::Status status = Serve();
  pollfd ready{server_->poll_fd(), POLLIN, 0};
  const int waiting = poll(&ready, 1, 0);
  for (const int fd : all)
    close(fd);
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(waiting, 0);
  EXPECT_TRUE(HasEnded(first));
  EXPECT_TRUE(HasEnded(second));
}

// Its requests wait while it does not read the replies, and are all answered once it
// does.
TEST_F(StoreServerTest, AClientThatDoesNotReadCostsABoundedAmount) {
  const int fd = Connect();
  const std::string value(kLongestStoreValue, 'v');
  std::string set = Validation() + Set("key", value);
  for (size_t sent = 0; sent < set.size();) {
    const ssize_t now = send(fd, set.data() + sent, set.size() - sent, MSG_DONTWAIT);
    sent += static_cast<size_t>(std::max<ssize_t>(now, 0));
    ASSERT_TRUE(Serve().ok());
  }
  std::string get = Head(Operation::kGet);
  AppendText(&get, "key");
  constexpr int kGets = 50;
  for (int i = 0; i < kGets; ++i)
    ASSERT_TRUE(Say(fd, get).ok());
  EXPECT_LT(server_->bytes_waiting(),
            kLongestStoreValue + LoopbackServer::kMostWaiting + 64);
  size_t heard = 0;
  std::vector<char> buffer(1 << 20);
  while (heard < kGets * (value.size() + 8)) {
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    heard += static_cast<size_t>(std::max<ssize_t>(got, 0));
    ASSERT_TRUE(server_->HandleEvents().ok());
  }
  EXPECT_EQ(heard, kGets * (value.size() + 8));
}

TEST_F(StoreServerTest, TakesAnotherPortWhereTheWantedOneIsTaken) {
  const auto other = StoreServer::Create(
      server_->port(), [](uint16_t) { return std::optional<int32_t>(); });
  ASSERT_TRUE(other.ok());
  EXPECT_NE((*other)->port(), server_->port());
}

}  // namespace
}  // namespace vrank::emulator
