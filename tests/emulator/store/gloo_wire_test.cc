#include "emulator/store/gloo_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using Kind = GlooMessage::Kind;

TEST(GlooWireTest, AddressesSurvive) {
  const GlooAddress address{"host7", std::string(136, 'a'), {3, -1, int64_t{1} << 41}};
  const std::string value = WriteGlooAddress(address);
  // Lengths of 8 bytes, and 8 bytes for each rank.
  EXPECT_EQ(value.size(), 8u + 5 + 8 + 136 + 3 * 8);
  const auto read = ReadGlooAddress(value);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->host, address.host);
  EXPECT_EQ(read->socket, address.socket);
  EXPECT_EQ(read->greetings, address.greetings);
  for (size_t i = 0; i < 8 + 5 + 8 + 136; ++i)
    EXPECT_FALSE(ReadGlooAddress(value.substr(0, i)).has_value()) << i;
}

TEST(GlooWireTest, EverybodyConnectsToTheLoopback) {
  sockaddr_storage storage{};
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(1);
  in.sin_addr.s_addr = htonl(0x0a000001);
  std::memcpy(&storage, &in, sizeof in);
  std::string like(reinterpret_cast<const char*>(&storage), sizeof storage);
  like += std::string(8, '\xff');
  const auto socket = LoopbackSocket(like, 4711);
  ASSERT_TRUE(socket.has_value());
  ASSERT_EQ(socket->size(), like.size());
  std::memcpy(&in, socket->data(), sizeof in);
  EXPECT_EQ(ntohs(in.sin_port), 4711);
  // Less than every other address: the other side connects.
  EXPECT_EQ(in.sin_addr.s_addr, 0u);
  like[0] = AF_INET6;
  EXPECT_FALSE(LoopbackSocket(like, 4711).has_value());
  EXPECT_FALSE(LoopbackSocket("short", 4711).has_value());
}

TEST(GlooWireTest, MessagesComeInPieces) {
  std::string bytes;
  AppendGlooMessage(&bytes, {Kind::kWillReceive, 77, 12, {}});
  const size_t first = bytes.size();
  EXPECT_EQ(first, 48u);
  AppendGlooMessage(&bytes, {Kind::kData, 78, 5, "hello"});
  for (size_t end = 0; end <= bytes.size(); ++end) {
    std::string_view rest(bytes.data(), end);
    size_t count = 0;
    for (;;) {
      const auto message = ReadGlooMessage(&rest);
      ASSERT_TRUE(message.ok());
      if (!message->has_value())
        break;
      ++count;
    }
    EXPECT_EQ(count, end < first ? 0u : end < bytes.size() ? 1u : 2u);
  }
}

TEST(GlooWireTest, RefusesOtherMessages) {
  for (const uint64_t kind : {0u, 4u}) {
    std::string bytes;
    AppendGlooMessage(&bytes, {static_cast<Kind>(kind), 1, 0, {}});
    std::string_view rest = bytes;
    EXPECT_FALSE(ReadGlooMessage(&rest).ok());
  }
  std::string bytes;
  AppendGlooMessage(&bytes, {Kind::kData, 1, 5, "abc"});  // says 5, has 3
  std::string_view rest = bytes;
  EXPECT_FALSE(ReadGlooMessage(&rest).ok());
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string noise(random() % 200, 0);
    for (char& byte : noise)
      byte = static_cast<char>(random());
    std::string_view any = noise;
    (void)ReadGlooMessage(&any);
    (void)ReadGlooAddress(noise);
  }
}

}  // namespace
}  // namespace vrank::emulator
