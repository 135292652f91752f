// The server from the side of processes that say hello well or badly. What a real guest
// does with the segment is tested in tests/virtual_host.

#include "emulator/connect/guest_server.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using Kind = GuestEvent::Kind;

constexpr uint32_t kRank = 5;

class GuestServerTest : public testing::Test {
 protected:
  GuestServerTest() {
    protocol::Settings settings{};
    settings.rank = kRank;
    link_ = std::move(GuestLink::Create(settings).value());
    server_ = std::move(GuestServer::Create().value());
    server_->AddLink(link_.get());
  }
  // As the process finds it in its environment.
  protocol::SessionToken Token() const {
    protocol::SessionToken token;
    for (size_t i = 0; i < token.size(); ++i)
      token[i] = static_cast<unsigned char>(
          std::stoi(server_->token().substr(2 * i, 2), nullptr, 16));
    return token;
  }

  int Connect() {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path + 1, server_->address().data(), server_->address().size());
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name),
                      offsetof(sockaddr_un, sun_path) + 1 + server_->address().size()),
              0);
    return fd;
  }

  protocol::Introduction Hello() {
    protocol::Introduction message;
    message.token = Token();
    message.hello.rank = kRank;
    message.hello.pid = 77;
    return message;
  }

  // What happened after all that was sent has been handled.
  std::vector<GuestEvent> Events() {
    std::vector<GuestEvent> all;
    for (int i = 0; i < 3; ++i) {  // accept, read, close
      for (GuestEvent& event : server_->HandleEvents())
        all.push_back(std::move(event));
    }
    return all;
  }

  // Sends `hello` and returns the reply, and how many descriptors came with it.
  protocol::HelloReply Say(int fd, const void* hello, size_t bytes, int* descriptors,
                           std::vector<GuestEvent>* events) {
    EXPECT_EQ(send(fd, hello, bytes, 0), static_cast<ssize_t>(bytes));
    *events = Events();
    protocol::HelloReply reply{};
    iovec part{&reply, sizeof reply};
    alignas(cmsghdr) std::array<char, 256> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    EXPECT_EQ(recvmsg(fd, &message, MSG_DONTWAIT), static_cast<ssize_t>(sizeof reply));
    *descriptors = 0;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
      *descriptors = static_cast<int>((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      int received[2];
      memcpy(received, CMSG_DATA(header), sizeof received);
      for (int descriptor : received)
        close(descriptor);
    }
    return reply;
  }

  std::string RefusalOf(const protocol::Introduction& hello) {
    const int fd = Connect();
    int descriptors = -1;
    std::vector<GuestEvent> events;
    const protocol::HelloReply reply =
        Say(fd, &hello, sizeof hello, &descriptors, &events);
    EXPECT_EQ(reply.accepted, 0u);
    EXPECT_EQ(descriptors, 0);
    EXPECT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].kind, Kind::kRefused);
    EXPECT_EQ(events[0].text, reply.reason);
    close(fd);
    return reply.reason;
  }

  std::unique_ptr<GuestLink> link_;
  std::unique_ptr<GuestServer> server_;
};

TEST_F(GuestServerTest, HandsTheSegmentToAProcessOfAKnownRankAndNoticesItsEnd) {
  const int fd = Connect();
  int descriptors = 0;
  std::vector<GuestEvent> events;
  const protocol::Introduction hello = Hello();
  const protocol::HelloReply reply =
      Say(fd, &hello, sizeof hello, &descriptors, &events);
  EXPECT_EQ(reply.accepted, 1u);
  EXPECT_EQ(descriptors, 2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kConnected);
  EXPECT_TRUE(link_->connected());
  close(fd);
  events = Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kDisconnected);
  EXPECT_EQ(events[0].pid, 77u);
  EXPECT_FALSE(link_->connected());
  EXPECT_FALSE(link_->ended());  // it had not claimed the rank
}

TEST_F(GuestServerTest, SendsNothingToAChildAfterFork) {
  const int fd = Connect();
  protocol::Introduction hello = Hello();
  hello.hello.wants_reply = 0;
  ASSERT_EQ(send(fd, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  EXPECT_EQ(Events().size(), 1u);
  EXPECT_TRUE(link_->connected());
  char byte;
  EXPECT_EQ(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  close(fd);
}

TEST_F(GuestServerTest, CountsAProcessThatExecutesAnotherProgramOnce) {
  protocol::Introduction hello = Hello();
  hello.hello.wants_reply = 0;
  const int before = Connect();
  send(before, &hello, sizeof hello, 0);
  const int after = Connect();
  send(after, &hello, sizeof hello, 0);
  Events();
  close(before);
  Events();
  EXPECT_TRUE(link_->connected());
  close(after);
  Events();
  EXPECT_FALSE(link_->connected());
}

TEST_F(GuestServerTest, SaysWhyItRefusesAProcessOfTheJob) {
  protocol::Introduction hello = Hello();
  hello.hello.version = protocol::kVersion + 1;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("speaks version"));
  hello = Hello();
  hello.hello.segment_bytes += 8;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("from one build"));
  hello = Hello();
  hello.hello.rank = 6;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("rank 6 does not run for real"));
  EXPECT_FALSE(link_->connected());
  EXPECT_THAT(server_->strangers().counts(), IsEmpty());
}

// They learn why, and it is no event of the job.
TEST_F(GuestServerTest, TurnsStrangersAway) {
  protocol::Introduction old = Hello(), forged = Hello();
  old.hello.magic = 1;
  forged.token[0] ^= 1;
  const std::string longer(sizeof old + 1, 'x');
  const std::pair<std::string, const char*> strangers[] = {
      {std::string(reinterpret_cast<char*>(&old), sizeof old), "not a guest library"},
      {std::string(reinterpret_cast<char*>(&forged), sizeof forged), "VRANK_TOKEN"},
      {"x", "not a guest library"},
      {longer, "not a guest library"}};
  for (const auto& [bytes, reason] : strangers) {
    const int fd = Connect();
    int descriptors = -1;
    std::vector<GuestEvent> events;
    const protocol::HelloReply reply =
        Say(fd, bytes.data(), bytes.size(), &descriptors, &events);
    EXPECT_EQ(reply.accepted, 0u);
    EXPECT_EQ(descriptors, 0);
    EXPECT_THAT(reply.reason, HasSubstr(reason));
    EXPECT_THAT(events, IsEmpty());
    close(fd);
  }
  EXPECT_THAT(server_->strangers().TakeNotes(), SizeIs(1));
  EXPECT_THAT(server_->strangers().counts(),
              ElementsAre(Pair(HasSubstr("malformed"), std::size(strangers))));
}

TEST_F(GuestServerTest, ProcessesOfOtherUsersGetTheReason) {
  const uid_t other = geteuid() + 1;
  server_ = std::move(GuestServer::Create([&](int) {
                        return Peer{Peer::Kind::kUser, other};
                      }).value());
  server_->AddLink(link_.get());
  const int fd = Connect();
  int descriptors = -1;
  std::vector<GuestEvent> events;
  const protocol::Introduction hello = Hello();
  const protocol::HelloReply reply =
      Say(fd, &hello, sizeof hello, &descriptors, &events);
  EXPECT_EQ(reply.accepted, 0u);
  EXPECT_THAT(reply.reason, HasSubstr("another user"));
  EXPECT_THAT(events, IsEmpty());
  EXPECT_THAT(server_->strangers().TakeNotes(),
              ElementsAre(HasSubstr(std::to_string(other))));
  close(fd);
}

TEST_F(GuestServerTest, SilentConnectionsMakeRoom) {
  constexpr std::chrono::milliseconds kPatience{100};
  server_ = std::move(GuestServer::Create(UnixPeer, {2, kPatience}).value());
  server_->AddLink(link_.get());
  const int silent = Connect(), late = Connect();
  Events();
  const int guest = Connect();
  protocol::Introduction hello = Hello();
  hello.hello.wants_reply = 0;
  send(guest, &hello, sizeof hello, 0);
  EXPECT_THAT(Events(), IsEmpty());
  std::this_thread::sleep_for(kPatience);
  send(late, &hello, sizeof hello, 0);
  EXPECT_EQ(Events().size(), 2u);
  for (const int fd : {silent, late, guest})
    close(fd);
}

TEST_F(GuestServerTest, SurvivesRudeProcesses) {
  const int silent = Connect();
  close(silent);
  EXPECT_THAT(Events(), IsEmpty());
  const int twice = Connect();
  protocol::Introduction hello = Hello();
  hello.hello.wants_reply = 0;
  send(twice, &hello, sizeof hello, 0);
  send(twice, &hello, sizeof hello, 0);  // is shown the door
  Events();
  EXPECT_FALSE(link_->connected());
  close(twice);
}

}  // namespace
}  // namespace vrank::emulator
