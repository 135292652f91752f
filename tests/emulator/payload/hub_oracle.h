// A brute-force twin of the payload hub: every element of every result is worked out
// one by one from all contributions.

#ifndef VRANK_TESTS_EMULATOR_PAYLOAD_HUB_ORACLE_H_
#define VRANK_TESTS_EMULATOR_PAYLOAD_HUB_ORACLE_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "emulator/payload/element.h"
#include "emulator/payload/hub.h"

namespace vrank::emulator {
namespace {

using graph::CollectiveCall;
using graph::CollectiveKind;
using graph::ElementType;
using graph::Reduction;
using protocol::Payload;
using protocol::PayloadKey;
using protocol::PayloadState;

constexpr uint32_t kCommunicator = 1;

inline PayloadKey KeyOf(uint32_t sequence) {
  return PayloadKey{kCommunicator, sequence, protocol::kNone, 0};
}

inline PayloadKey TransferKey(uint32_t peer, uint32_t sequence) {
  return PayloadKey{kCommunicator, sequence, peer, 1};
}

inline PayloadKey OwnPartKey(uint32_t own) {
  return PayloadKey{kCommunicator, 0, own, protocol::kOwnPart};
}

inline Payload Piece(const PayloadKey& key, PayloadState state, uint64_t offset,
                     uint64_t bytes) {
  Payload payload{};
  payload.key = key;
  payload.state = state;
  payload.offset = offset;
  payload.bytes = bytes;
  payload.last = key.is_transfer == protocol::kOwnPart ? 1 : 0;  // all of it
  return payload;
}

// A communicator of `members` in which member i is world rank 10 + i.
class HubFixture {
 public:
  // `other`: to be asked instead of a hub of the fixture's own.
  HubFixture(uint32_t members, std::set<uint32_t> real, HubOptions options = {},
             std::unique_ptr<PayloadTransport> other = nullptr)
      : real_(real), hub_(options, WorldRanks(real)), other_(std::move(other)) {
    std::vector<int32_t> world(members);
    std::iota(world.begin(), world.end(), 10);
    for (uint32_t member : real)
      transport().AddCommunicator(World(member), kCommunicator, "world", world, member);
  }

  static int32_t World(uint32_t member) { return 10 + static_cast<int32_t>(member); }
  PayloadHub& hub() { return hub_; }
  PayloadTransport& transport() { return other_ != nullptr ? *other_ : hub_; }
  const std::set<uint32_t>& real() const { return real_; }

  void Deposit(uint32_t member, const PayloadKey& key, uint64_t offset,
               const std::vector<std::byte>& bytes) {
    ASSERT_TRUE(transport()
                    .Deposit(World(member),
                             Piece(key, PayloadState::kKnown, offset, bytes.size()),
                             bytes)
                    .ok());
  }
  void Call(uint32_t member, const CollectiveCall& call) {
    const absl::Status status =
        transport().Collective(World(member), kCommunicator, call);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // Byte by byte; nullopt where computed.
  std::vector<std::optional<std::byte>> Result(uint32_t member, const PayloadKey& key,
                                               uint64_t offset, uint64_t bytes) {
    std::vector<std::optional<std::byte>> result;
    while (result.size() < bytes) {
      auto fetched = transport().Fetch(World(member), key, offset + result.size(),
                                       bytes - result.size());
      EXPECT_TRUE(fetched.ok()) << fetched.status().ToString();
      if (fetched.ok() && fetched->state == PayloadHub::FetchState::kUnderWay)
        continue;
      if (!fetched.ok() || fetched->state == PayloadHub::FetchState::kNotReady ||
          fetched->bytes == 0)
        return result;
      const bool known = fetched->state == PayloadHub::FetchState::kKnown;
      for (uint64_t i = 0; i < fetched->bytes; ++i)
        result.push_back(known ? std::optional(fetched->data[i]) : std::nullopt);
    }
    return result;
  }

 private:
  static std::set<int32_t> WorldRanks(const std::set<uint32_t>& real) {
    std::set<int32_t> ranks;
    for (uint32_t member : real)
      ranks.insert(World(member));
    return ranks;
  }
  std::set<uint32_t> real_;
  PayloadHub hub_;
  const std::unique_ptr<PayloadTransport> other_;
};

// One element: a small number that every type can hold, or nothing (computed).
using Element = std::optional<int>;

int Reduce(Reduction reduction, const std::vector<int>& values, int members) {
  int result = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    switch (reduction) {
      case Reduction::kProd:
        result *= values[i];
        break;
      case Reduction::kMax:
        result = std::max(result, values[i]);
        break;
      case Reduction::kMin:
        result = std::min(result, values[i]);
        break;
      default:
        result += values[i];
    }
  }
  if (reduction == Reduction::kProd)
    for (size_t i = values.size(); i < static_cast<size_t>(members); ++i)
      result *= values[i % values.size()];
  // A pre-multiplied sum's contributions come multiplied.
  if (reduction == Reduction::kSum || reduction == Reduction::kPreMulSum)
    result = result * members / static_cast<int>(values.size());
  if (reduction == Reduction::kAvg)
    result /= static_cast<int>(values.size());
  return result;
}

struct Case {
  CollectiveCall call;
  uint32_t members;
  std::vector<std::vector<Element>> inputs;  // per member; virtual ones empty
};

// The oracle: element `i` of the member's result.
Element Expected(const Case& c, const std::set<uint32_t>& real, uint32_t member,
                 uint64_t i) {
  const uint64_t count = c.call.count;
  const auto from = [&](uint32_t source, uint64_t at) {
    return c.inputs[real.count(source) != 0 ? source : member][at];
  };
  switch (c.call.operation) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather: {
      auto source = static_cast<uint32_t>(i / count);
      while (real.count(source) == 0)
        source = (source + c.members - 1) % c.members;
      return c.inputs[source][i % count];
    }
    case CollectiveKind::kAllToAll:
      return from(static_cast<uint32_t>(i / count), member * count + i % count);
    case CollectiveKind::kBroadcast:
      return from(c.call.root, i);
    case CollectiveKind::kScatter:
      // A member in the root's place has its own part only.
      return from(c.call.root, real.count(c.call.root) != 0 ? member * count + i : i);
    default:
      break;
  }
  const uint64_t at =
      c.call.operation == CollectiveKind::kReduceScatter ? member * count + i : i;
  std::vector<int> values;
  for (uint32_t source : real) {
    if (!c.inputs[source][at].has_value())
      return std::nullopt;
    values.push_back(*c.inputs[source][at]);
  }
  return Reduce(c.call.reduction, values, static_cast<int>(c.members));
}

class RandomCalls {
 public:
  explicit RandomCalls(uint32_t seed) : random_(seed) {}

  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::set<uint32_t> Real(uint32_t members) {
    // Sizes that divide the sums: 1, 2 or all.
    std::set<uint32_t> real{Below(members)};
    if (Below(2) == 0)
      real.insert(Below(members));
    if (Below(3) == 0)
      for (uint32_t i = 0; i < members; ++i)
        real.insert(i);
    return real;
  }

  Case Next(uint32_t members, const std::set<uint32_t>& real) {
    Case c;
    c.members = members;
    c.call.operation = static_cast<CollectiveKind>(Below(8));
    c.call.type = static_cast<ElementType>(Below(12));
    c.call.reduction = static_cast<Reduction>(Below(6));
    c.call.root = Below(members);
    c.call.count = 1 + Below(9);
    c.inputs.resize(members);
    const bool all_known = Below(2) == 0;
    // An average of equal values is exact in every type.
    const int same = static_cast<int>(Below(2));
    for (uint32_t member : real) {
      const auto bytes = BytesOf(c.call, members, member);
      auto& input = c.inputs[member];
      for (uint64_t i = 0; i < bytes->contribution / graph::ElementBytes(c.call.type);
           ++i) {
        const int value =
            c.call.reduction == Reduction::kAvg ? 2 * same : SmallValue(c.call);
        input.push_back(all_known || Below(4) != 0 ? Element(value) : std::nullopt);
      }
    }
    return c;
  }

 private:
  // -1 or 1 where a type has both: an odd number of factors differs from an even one.
  int SmallValue(const CollectiveCall& call) {
    const bool has_sign = call.type != ElementType::kUint8 &&
                          call.type != ElementType::kUint32 &&
                          call.type != ElementType::kUint64;
    return call.reduction == Reduction::kProd && has_sign
               ? 2 * static_cast<int>(Below(2)) - 1
               : static_cast<int>(Below(2));
  }

  std::mt19937 random_;
};

inline void DepositElements(HubFixture& fixture, RandomCalls& random, const Case& c,
                            uint32_t member, uint32_t sequence) {
  const uint64_t element = graph::ElementBytes(c.call.type);
  const auto& input = c.inputs[member];
  for (uint64_t i = 0; i < input.size(); ++i) {
    if (!input[i].has_value()) {
      // Announced as computed, or not mentioned at all.
      if (random.Below(2) == 0) {
        ASSERT_TRUE(fixture.transport()
                        .Deposit(HubFixture::World(member),
                                 Piece(KeyOf(sequence), PayloadState::kComputed,
                                       i * element, element),
                                 {})
                        .ok());
      }
      continue;
    }
    std::vector<std::byte> bytes(element);
    FromDouble(c.call.type, *input[i], bytes.data());
    fixture.Deposit(member, KeyOf(sequence), i * element, bytes);
  }
}

inline void ExpectResult(HubFixture& fixture, RandomCalls& random, const Case& c,
                         uint32_t member, uint32_t sequence) {
  const uint64_t element = graph::ElementBytes(c.call.type);
  const uint64_t total = BytesOf(c.call, c.members, member)->result;
  if (total == 0)
    return;
  const uint64_t offset = random.Below(static_cast<uint32_t>(total));
  const uint64_t bytes = 1 + random.Below(static_cast<uint32_t>(total - offset));
  const auto result = fixture.Result(member, KeyOf(sequence), offset, bytes);
  ASSERT_EQ(result.size(), bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    const uint64_t at = offset + i;
    const Element expected = Expected(c, fixture.real(), member, at / element);
    std::vector<std::byte> want(element);
    if (expected.has_value())
      FromDouble(c.call.type, *expected, want.data());
    ASSERT_EQ(result[i].has_value(), expected.has_value())
        << graph::Name(c.call.operation) << " " << graph::Name(c.call.type);
    if (expected.has_value()) {
      ASSERT_EQ(*result[i], want[at % element])
          << graph::Name(c.call.operation) << " " << graph::Name(c.call.type)
          << " reduction " << static_cast<int>(c.call.reduction);
    }
  }
}

}  // namespace
}  // namespace vrank::emulator

#endif  // VRANK_TESTS_EMULATOR_PAYLOAD_HUB_ORACLE_H_
