// The server from the side of its clients, over loopback.

#include "emulator/store/store_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using testing::HasSubstr;
using Operation = StoreRequest::Operation;

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

  std::unique_ptr<StoreServer> server_;
  std::vector<int> clients_;
  std::vector<int32_t> ranks_;
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
  std::string set = Head(Operation::kSet);
  AppendText(&set, "key");
  AppendText(&set, "value");
  ASSERT_TRUE(Say(setting, Validation() + set).ok());
  EXPECT_EQ(Hear(waiting, 1), std::string(1, '\0'));
  EXPECT_FALSE(server_->HasMissing());
  EXPECT_EQ(server_->set_for_absent(), 0u);
}

std::string Set(const std::string& key, const std::string& value) {
  std::string bytes = Head(Operation::kSet);
  AppendText(&bytes, key);
  AppendText(&bytes, value);
  return bytes;
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

TEST_F(StoreServerTest, StrangersAreErrors) {
  EXPECT_FALSE(Say(Connect(), Validation(1)).ok());
  EXPECT_FALSE(Say(Connect(), Wait("key")).ok());
}

TEST_F(StoreServerTest, TakesAnotherPortWhereTheWantedOneIsTaken) {
  const auto other = StoreServer::Create(
      server_->port(), [](uint16_t) { return std::optional<int32_t>(); });
  ASSERT_TRUE(other.ok());
  EXPECT_NE((*other)->port(), server_->port());
}

}  // namespace
}  // namespace vrank::emulator
