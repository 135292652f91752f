// The server from the side of processes that say hello well or badly. What a real guest
// does with the segment is tested in tests/virtual_host.

#include "emulator/connect/guest_server.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using testing::HasSubstr;
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

  protocol::Hello Hello() {
    protocol::Hello hello;
    hello.rank = kRank;
    hello.pid = 77;
    return hello;
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

  std::string RefusalOf(const protocol::Hello& hello) {
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
  const protocol::Hello hello = Hello();
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
  protocol::Hello hello = Hello();
  hello.wants_reply = 0;
  ASSERT_EQ(send(fd, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  EXPECT_EQ(Events().size(), 1u);
  EXPECT_TRUE(link_->connected());
  char byte;
  EXPECT_EQ(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  close(fd);
}

TEST_F(GuestServerTest, CountsAProcessThatExecutesAnotherProgramOnce) {
  protocol::Hello hello = Hello();
  hello.wants_reply = 0;
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

TEST_F(GuestServerTest, SaysWhyItRefuses) {
  protocol::Hello hello = Hello();
  hello.version = protocol::kVersion + 1;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("speaks version"));
  hello = Hello();
  hello.segment_bytes += 8;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("from one build"));
  hello = Hello();
  hello.rank = 6;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("rank 6 does not run for real"));
  hello = Hello();
  hello.magic = 1;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("not a guest library"));
  EXPECT_FALSE(link_->connected());
}

TEST_F(GuestServerTest, SurvivesStrangers) {
  const int silent = Connect();
  close(silent);
  const int rude = Connect();
  send(rude, "x", 1, 0);
  send(rude, "y", 1, 0);
  const std::vector<GuestEvent> events = Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kRefused);
  close(rude);
  const int twice = Connect();
  protocol::Hello hello = Hello();
  hello.wants_reply = 0;
  send(twice, &hello, sizeof hello, 0);
  send(twice, &hello, sizeof hello, 0);  // is shown the door
  Events();
  EXPECT_FALSE(link_->connected());
  close(twice);
}

}  // namespace
}  // namespace vrank::emulator
