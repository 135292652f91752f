// The kernel tells a process of data a moment after the process can read it: what tells
// of vrank's reply may come once the reply has been read. Here it comes late always.

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "emulator/connect/guest_link.h"
#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/connection.h"

namespace vrank::host {
namespace {

// A server that replies, and then sends a byte more to all who asked: to the kernel
// that is the same as a late word of the reply.
class LateServer {
 public:
  LateServer() : link_(std::move(emulator::GuestLink::Create(TestSettings()).value())) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    address_ = "vrank-late-" + std::to_string(getpid());
    memcpy(name.sun_path + 1, address_.data(), address_.size());
    bind(listener_, reinterpret_cast<sockaddr*>(&name),
         static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address_.size()));
    listen(listener_, 8);
  }
  ~LateServer() { Close(); }

  const char* address() const { return address_.c_str(); }

  // Serves the two connections of one process.
  void Serve() {
    for (int i = 0; i < 2; ++i) {
      connections_.push_back(accept(listener_, nullptr, nullptr));
      protocol::Introduction hello;
      ASSERT_EQ(recv(connections_.back(), &hello, sizeof hello, 0),
                static_cast<ssize_t>(sizeof hello));
      if (hello.hello.wants_reply != 0) {
        asked_.push_back(connections_.back());
        Reply(connections_.back());
      }
    }
  }

  void SendLate() {
    for (const int fd : asked_)
      ASSERT_EQ(send(fd, "", 1, MSG_NOSIGNAL), 1);
  }

  void Close() {
    for (const int fd : connections_)
      close(fd);
    connections_.clear();
    if (listener_ >= 0)
      close(std::exchange(listener_, -1));
  }

 private:
  void Reply(int fd) {
    protocol::HelloReply reply{};
    reply.accepted = 1;
    iovec part{&reply, sizeof reply};
    const int descriptors[2] = {link_->memfd(), STDERR_FILENO};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptors);
    memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
    ASSERT_EQ(sendmsg(fd, &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof reply));
  }

  std::unique_ptr<emulator::GuestLink> link_;
  std::string address_;
  int listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  std::vector<int> connections_;
  std::vector<int> asked_;
};

// 'c' over the pipe: connected. 'g': it goes on.
[[noreturn]] void BeAGuest(const char* address, int say, int hear) {
  Connection connection;
  char error[256];
  const bool connected = Connect({address}, &connection, error, sizeof error);
  char word = connected ? 'c' : 'n';
  (void)!write(say, &word, 1);
  while (read(hear, &word, 1) == 1)
    (void)!write(say, "g", 1);
  _exit(0);
}

TEST(LateReplyTest, KillsNobodyAndTheEndOfVrankDoes) {
  int words[2];
  int orders[2];
  ASSERT_EQ(pipe(words), 0);
  ASSERT_EQ(pipe(orders), 0);
  LateServer server;
  const pid_t guest = fork();
  if (guest == 0) {
    close(orders[1]);
    BeAGuest(server.address(), words[1], orders[0]);
  }
  close(words[1]);
  server.Serve();
  char word = 0;
  ASSERT_EQ(read(words[0], &word, 1), 1);
  ASSERT_EQ(word, 'c');

  server.SendLate();
  ASSERT_EQ(write(orders[1], "?", 1), 1);
  EXPECT_EQ(read(words[0], &word, 1), 1);
  EXPECT_EQ(word, 'g');

  server.Close();
  int status = 0;
  EXPECT_EQ(waitpid(guest, &status, 0), guest);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  close(words[0]);
  close(orders[0]);
  close(orders[1]);
}

}  // namespace
}  // namespace vrank::host
