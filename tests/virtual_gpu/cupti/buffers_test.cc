// libcupti: the client's buffers, flushing, dropped records, iteration.

#include <algorithm>

#include "tests/virtual_gpu/cupti/cupti_fixture.h"

namespace vrank::cupti {
namespace {

class CuptiBuffersTest : public CuptiTest {
 protected:
  CuptiBuffersTest() {
    RegisterBuffers();
    EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME));
  }
  static void ReportCalls(uint32_t count) {
    for (uint32_t n = 1; n <= count; ++n)
      Report("cudaMalloc", n);
  }
};

TEST_F(CuptiBuffersTest, GivesBackFullBuffersAtOnceAndTheRestAtAFlush) {
  TheClient().buffer_bytes = 3 * sizeof(CUpti_ActivityAPI) + 8;
  ReportCalls(7);
  ASSERT_EQ(TheClient().delivered.size(), 2u);
  EXPECT_EQ(TheClient().delivered[0].size(), 3 * sizeof(CUpti_ActivityAPI));
  EXPECT_EQ(Records().size(), 7u);
  EXPECT_EQ(TheClient().delivered.size(), 3u);
  EXPECT_EQ(TheClient().requests, 3u);
}

// "If > 0 the buffer is filled with at most that many records before it is returned."
TEST_F(CuptiBuffersTest, KeepsToTheMaximumOfRecords) {
  TheClient().max_records = 2;
  ReportCalls(5);
  EXPECT_EQ(TheClient().delivered.size(), 2u);
  EXPECT_EQ(Records().size(), 5u);
}

// "The dropped count [...] is reset to zero when this function is called."
TEST_F(CuptiBuffersTest, CountsWhatFindsNoBuffer) {
  TheClient().decline = 3;
  ReportCalls(4);
  size_t dropped = 0;
  EXPECT_CUPTI(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  EXPECT_EQ(dropped, 3u);
  EXPECT_CUPTI(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  EXPECT_EQ(dropped, 0u);
  EXPECT_EQ(Records().size(), 1u);
  EXPECT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, nullptr),
            CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(CuptiBuffersTest, GivesBackBuffersThatItCannotUse) {
  TheClient().buffer_bytes = 16;
  ReportCalls(1);
  TheClient().buffer_bytes = 4096;
  TheClient().misalign = 4;
  Report("cudaMalloc", 2);
  size_t dropped = 0;
  EXPECT_CUPTI(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  EXPECT_EQ(dropped, 2u);
  ASSERT_EQ(TheClient().delivered.size(), 2u);
  EXPECT_TRUE(TheClient().delivered[0].empty());
  EXPECT_TRUE(TheClient().delivered[1].empty());
}

TEST_F(CuptiBuffersTest, AForcedFlushWaitsForTheWorkAndAPlainOneDoesNot) {
  EXPECT_CUPTI(cuptiActivityFlushAll(0));
  EXPECT_CUPTI(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  EXPECT_CUPTI(cuptiActivityFlush(nullptr, 0, 0));
  EXPECT_THAT(TheActivity().flushes, ::testing::ElementsAre(false, true, false));
  EXPECT_TRUE(TheClient().delivered.empty()) << "no record, no buffer";
}

TEST_F(CuptiBuffersTest, RefusesAFlushFromItsOwnCompletionCallback) {
  static CUptiResult inner;
  inner = CUPTI_SUCCESS;
  TheClient().on_complete = [] { inner = cuptiActivityFlushAll(0); };
  ReportCalls(1);
  EXPECT_EQ(Records().size(), 1u);
  EXPECT_EQ(inner, CUPTI_ERROR_INVALID_OPERATION);
}

TEST_F(CuptiTest, FlushNeedsCallbacks) {
  EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
  EXPECT_EQ(cuptiActivityRegisterCallbacks(nullptr, nullptr),
            CUPTI_ERROR_INVALID_PARAMETER);
}

// "Stop iterating the buffer when an error occurs": MAX_LIMIT_REACHED at the end,
// INVALID_KIND "if activity record is either incomplete or invalid".
TEST_F(CuptiBuffersTest, IteratesSafelyOverAnyBytes) {
  ReportCalls(2);
  ASSERT_EQ(Records().size(), 2u);
  std::vector<uint8_t> bytes = TheClient().delivered[0];
  CUpti_Activity* record = nullptr;
  EXPECT_EQ(cuptiActivityGetNextRecord(nullptr, 8, &record),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiActivityGetNextRecord(bytes.data(), 0, &record),
            CUPTI_ERROR_MAX_LIMIT_REACHED);
  EXPECT_EQ(cuptiActivityGetNextRecord(bytes.data(), 12, &record),
            CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(record, nullptr);
  EXPECT_CUPTI(cuptiActivityGetNextRecord(bytes.data(), bytes.size(), &record));
  EXPECT_EQ(static_cast<void*>(record), bytes.data());
  EXPECT_CUPTI(cuptiActivityGetNextRecord(bytes.data(), bytes.size(), &record));
  EXPECT_EQ(cuptiActivityGetNextRecord(bytes.data(), bytes.size(), &record),
            CUPTI_ERROR_MAX_LIMIT_REACHED);
  std::fill(bytes.begin(), bytes.end(), uint8_t{0xff});
  record = nullptr;
  EXPECT_EQ(cuptiActivityGetNextRecord(bytes.data(), bytes.size(), &record),
            CUPTI_ERROR_INVALID_KIND);
}

TEST_F(CuptiBuffersTest, FinalizeDeliversWhatThereIs) {
  ReportCalls(3);
  EXPECT_CUPTI(cuptiFinalize());
  ASSERT_EQ(TheClient().delivered.size(), 1u);
  EXPECT_EQ(TheActivity().listener, nullptr);
  EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
}

}  // namespace
}  // namespace vrank::cupti
