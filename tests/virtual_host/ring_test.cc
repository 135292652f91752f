// The ring from both ends: RingWriter and GuestLink.

#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/ring_writer.h"

namespace vrank::host {
namespace {

using protocol::RecordKind;

// A link and a writer on the same segment, with a doorbell of their own.
class RingTest : public testing::Test {
 protected:
  RingTest()
      : link_(std::move(emulator::GuestLink::Create(TestSettings()).value())),
        doorbell_(eventfd(0, EFD_NONBLOCK)) {
    EXPECT_TRUE(MapSegment(link_->memfd(), &connection_));
    writer_ = std::make_unique<RingWriter>(&connection_.segment->header,
                                           connection_.ring, doorbell_);
  }
  ~RingTest() override { close(doorbell_); }

  void Write(uint64_t value, size_t tail_bytes, bool question = false) {
    protocol::Loss record{};
    record.record.kind = RecordKind::kLoss;
    record.amount = value;
    const std::string tail(tail_bytes, static_cast<char>(value));
    writer_->Write(&record.record, sizeof record, tail.data(), tail.size(), question);
  }

  bool Rang() {
    uint64_t rings = 0;
    return read(doorbell_, &rings, sizeof rings) == sizeof rings;
  }

  std::unique_ptr<emulator::GuestLink> link_;
  Connection connection_;
  const int doorbell_;
  std::unique_ptr<RingWriter> writer_;
};

TEST_F(RingTest, CarriesRecordsAcrossItsEndWholeAndInOrder) {
  // 5 times around, with sizes that do not divide the ring.
  const uint64_t target = 5 * protocol::kRingBytes;
  uint64_t bytes = 0;
  std::thread writer([&] {
    for (uint64_t i = 0; bytes < target; ++i) {
      const size_t tail = i * 97 % 5000;
      bytes += sizeof(protocol::Loss) + (tail + 7) / 8 * 8;
      Write(i, tail);
    }
    protocol::Loss end{};
    end.record.kind = RecordKind::kHost;
    writer_->Write(&end.record, sizeof end, nullptr, 0, true);
  });
  uint64_t next = 0;
  for (bool more = true; more;) {
    const protocol::Record* record = link_->Next();
    if (record == nullptr)
      continue;
    more = record->kind == RecordKind::kLoss;
    if (more) {
      const auto* loss = reinterpret_cast<const protocol::Loss*>(record);
      ASSERT_EQ(loss->amount, next);
      const size_t tail = next * 97 % 5000;
      const auto* bytes_of_tail = reinterpret_cast<const char*>(loss + 1);
      ASSERT_EQ(record->size, sizeof *loss + (tail + 7) / 8 * 8);
      if (tail > 0) {
        ASSERT_EQ(bytes_of_tail[0], static_cast<char>(next));
        ASSERT_EQ(bytes_of_tail[tail - 1], static_cast<char>(next));
      }
      ++next;
    }
    link_->Consume();
  }
  writer.join();
  EXPECT_TRUE(link_->status().ok());
  EXPECT_EQ(link_->BytesWaiting(), 0u);
}

TEST_F(RingTest, MakesTheWriterWaitForRoom) {
  std::atomic<int> written{0};
  constexpr int kRecords = 12;  // of 1 MiB: three times the ring
  std::thread writer([&] {
    for (int i = 0; i < kRecords; ++i) {
      Write(i, 1 << 20);
      ++written;
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(written.load(), 4);
  for (int read = 0; read < kRecords;) {
    if (link_->Next() == nullptr)
      continue;
    link_->Consume();
    ++read;
  }
  writer.join();
  EXPECT_EQ(written.load(), kRecords);
}

TEST_F(RingTest, RingsForWhatTheEmulatorWantsToBeWokenFor) {
  using WakeFor = emulator::GuestLink::WakeFor;
  Write(1, 0);
  EXPECT_FALSE(Rang());  // awake
  link_->PrepareToSleep(WakeFor::kQuestions);
  Write(2, 0);
  EXPECT_FALSE(Rang());
  Write(3, 0, /*question=*/true);
  EXPECT_TRUE(Rang());
  Write(4, 0, /*question=*/true);
  EXPECT_FALSE(Rang());  // woken already
  link_->PrepareToSleep(WakeFor::kQuestions);
  Write(5, protocol::kRingBytes / 4);
  EXPECT_TRUE(Rang());  // fills up
  link_->PrepareToSleep(WakeFor::kAnything);
  Write(6, 0);
  EXPECT_TRUE(Rang());
}

TEST_F(RingTest, StopsAtARecordThatIsNone) {
  protocol::Loss record{};
  record.record.kind = static_cast<RecordKind>(999);
  writer_->Write(&record.record, sizeof record, nullptr, 0, false);
  EXPECT_EQ(link_->Next(), nullptr);
  EXPECT_EQ(link_->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(link_->status().message()).find("rank 0"), std::string::npos);
}

}  // namespace
}  // namespace vrank::host
