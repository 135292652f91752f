#include "examples/gpt_trainer/id_exchange.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpt {
namespace {

// A free port below the ephemeral ones (from 32768 on, net.ipv4.ip_local_port_range): a
// client that retries to connect to an ephemeral port may connect to itself.
int FreePort() {
  for (int port = 20000 + getpid() % 12000; port < 32768; ++port) {
    const int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    const bool free =
        bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(probe);
    if (free)
      return port;
  }
  return 20000;
}

TEST(IdExchangeTest, EveryClientGetsTheBytes) {
  const int port = FreePort();
  char sent[128];
  std::memset(sent, 0x5a, sizeof(sent));
  std::vector<std::string> received(3, std::string(sizeof(sent), '\0'));
  std::vector<std::thread> clients;
  for (std::string& bytes : received) {  // clients first: they retry
    clients.emplace_back(
        [&bytes, port] { FetchBytes("127.0.0.1", port, bytes.data(), bytes.size()); });
  }
  ServeBytes(port, 3, sent, sizeof(sent));
  for (std::thread& client : clients) {
    client.join();
  }
  for (const std::string& bytes : received) {
    EXPECT_EQ(bytes, std::string(sent, sizeof(sent)));
  }
}

}  // namespace
}  // namespace gpt
