// Queries that the guest answers by what it has heard before.

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/guest_channel.h"

namespace vrank::host {
namespace {

using protocol::RecordKind;

protocol::Kernel Kernel() {
  protocol::Kernel record{};
  record.record.kind = RecordKind::kKernel;
  record.lane = 1;
  return record;
}

// "Not yet" comes with a bound of the end, which holds until the process does something
// else.
TEST(QueryBoundsTest, AnswersQueriesItselfUntilTheBoundOfAnEnd) {
  LinkedChannel linked;
  std::atomic<int> asked{0};
  FakeEmulator emulator(
      &linked.link(), [&](emulator::GuestLink& link, const protocol::Record& record) {
        if (record.kind != RecordKind::kHostQuery)
          return;
        const auto& query = reinterpret_cast<const protocol::HostQuery&>(record);
        if (query.slot == protocol::kNoSlot)
          return;
        link.Answer(query.slot, {.host_ns = 0, .end_ns = 1000 * ++asked});
      });
  std::thread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.Emit(Kernel());
    protocol::HostQuery query{};
    query.record.kind = RecordKind::kHostQuery;
    query.target_kind = protocol::QueryTarget::kLane;
    query.target = 1;
    const struct {
      int64_t spent_ns;
      uint32_t target;
      bool works;
      int asked;
    } steps[] = {
        {500, 1, false, 1}, {400, 1, false, 1}, {100, 1, false, 2}, {100, 2, false, 3},
        {100, 1, false, 4}, {100, 1, true, 5},  {100, 1, false, 5},
    };
    for (const auto& step : steps) {
      channel.Spend(Duration::Nanoseconds(step.spent_ns));
      if (step.works)
        channel.Emit(Kernel());
      query.target = step.target;
      EXPECT_FALSE(channel.Ask(query).complete);
      EXPECT_EQ(asked, step.asked);
    }
  }).join();
  int told = 0;
  for (const SeenRecord& seen : emulator.Stop())
    told += seen.record().kind == RecordKind::kHostQuery ? 1 : 0;
  EXPECT_EQ(told, 7) << "each query is a part of what the program did";
}

}  // namespace
}  // namespace vrank::host
