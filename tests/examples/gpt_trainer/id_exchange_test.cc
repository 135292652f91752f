#include "examples/gpt_trainer/id_exchange.h"

#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpt {
namespace {

TEST(IdExchangeTest, EveryClientGetsTheBytes) {
  const int port = 20000 + getpid() % 20000;
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
