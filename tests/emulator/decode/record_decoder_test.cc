#include "emulator/decode/record_decoder.h"

#include <cstring>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/channel.h"

namespace vrank::emulator {
namespace {

using graph::OpKind;
using protocol::RecordKind;

// Prices by numbers that a test recognises.
class FakePricer : public WorkPricer {
 public:
  absl::StatusOr<uint32_t> DefineKernel(const std::string& mangled) override {
    if (mangled == "refused")
      return absl::InvalidArgumentError("kernels.textproto: 'refused' has no bytes");
    names.push_back(mangled);
    return static_cast<uint32_t>(names.size() - 1);
  }
  absl::StatusOr<graph::WorkCost> Kernel(
      uint32_t, const protocol::Kernel& launch,
      std::span<const std::byte> arguments) override {
    last_arguments = arguments.size();
    return graph::WorkCost{.ns = launch.grid[0],
                           .source = graph::Source::kAssumed,
                           .flops = 5,
                           .bytes = 7,
                           .unseen_ns = static_cast<uint32_t>(launch.reachable_bytes)};
  }
  graph::WorkCost Gemm(const protocol::Gemm& gemm) override {
    return graph::WorkCost{static_cast<int64_t>(gemm.m), graph::Source::kModelled,
                           2 * gemm.m * gemm.n * gemm.k, 0};
  }
  graph::WorkCost Copy(const protocol::Copy& copy) override {
    return graph::WorkCost{static_cast<int64_t>(copy.bytes), graph::Source::kModelled,
                           0, copy.bytes};
  }
  graph::WorkCost Memset(const protocol::Memset& memset) override {
    return graph::WorkCost{static_cast<int64_t>(memset.bytes)};
  }
  std::vector<std::string> names;
  size_t last_arguments = 0;
};

class FakeSink : public DecoderSink {
 public:
  void OnQuestion(int32_t, uint64_t op, const Question& question) override {
    questions.emplace_back(op, question);
  }
  absl::Status OnPayload(int32_t, const protocol::Payload&,
                         std::span<const std::byte> bytes) override {
    payloads.emplace_back(bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  absl::Status OnCollective(int32_t, uint32_t,
                            const graph::CollectiveCall& call) override {
    calls.push_back(call);
    return absl::OkStatus();
  }
  absl::StatusOr<graph::RootedTransfers> OnTransfers(
      int32_t, uint32_t, std::span<const protocol::Transfer> list) override {
    transfers += list.size();
    return rooted;
  }
  void OnHostGaps(int32_t, const protocol::HostGaps&,
                  std::span<const protocol::HostGap> batch) override {
    gaps.assign(batch.begin(), batch.end());
  }
  void OnAllocatorPeak(int32_t, uint64_t op,
                       const protocol::AllocatorPeak& peak) override {
    allocator_peaks[op] = peak.allocated_bytes;
  }
  void OnAllocatorBlocks(int32_t, uint64_t,
                         std::span<const protocol::AllocatorBlock> some,
                         bool complete) override {
    blocks.assign(some.begin(), some.end());
    blocks_complete = complete;
  }
  void OnHostFuncEnd(int32_t, uint64_t op, int64_t duration_ns) override {
    durations[op] = duration_ns;
  }
  void OnRelease(int32_t, uint32_t communicator) override {
    released.push_back(communicator);
  }
  void OnLoss(int32_t, uint64_t, uint32_t loss, const std::string& name,
              uint64_t amount) override {
    losses.emplace_back(loss, name, amount);
  }

  std::vector<std::pair<uint64_t, Question>> questions;
  std::vector<protocol::HostGap> gaps;
  std::map<uint64_t, uint64_t> allocator_peaks;  // by the op that follows
  std::vector<protocol::AllocatorBlock> blocks;
  bool blocks_complete = true;
  std::map<uint64_t, int64_t> durations;  // of host functions, by op
  std::vector<std::vector<std::byte>> payloads;
  std::vector<graph::CollectiveCall> calls;
  std::vector<uint32_t> released;
  std::vector<std::tuple<uint32_t, std::string, uint64_t>> losses;
  size_t transfers = 0;
  graph::RootedTransfers rooted;
};

class RecordDecoderTest : public testing::Test {
 protected:
  template <typename T>
  absl::Status Decode(RecordKind kind, T record, const void* tail = nullptr,
                      size_t tail_bytes = 0, int64_t host_ns = 0) {
    record.record.kind = kind;
    record.record.host_ns = host_ns;
    const size_t padded = (tail_bytes + 7) / 8 * 8;
    record.record.size = static_cast<uint32_t>(sizeof(T) + padded);
    std::vector<uint64_t> buffer((sizeof(T) + padded) / 8);
    std::memcpy(buffer.data(), &record, sizeof(T));
    if (tail_bytes > 0)
      std::memcpy(reinterpret_cast<char*>(buffer.data()) + sizeof(T), tail, tail_bytes);
    return decoder_.Decode(*reinterpret_cast<const protocol::Record*>(buffer.data()));
  }
  void Name(uint32_t number, const std::string& text) {
    protocol::DefineName define{};
    define.name = number;
    define.length = static_cast<uint32_t>(text.size());
    ASSERT_TRUE(Decode(RecordKind::kDefineName, define, text.data(), text.size()).ok());
  }
  const graph::Op& LastOp() { return program_.op(program_.size() - 1); }

  graph::Program program_{true};
  FakePricer pricer_;
  FakeSink sink_;
  RecordDecoder decoder_{3, &program_, &pricer_, &sink_};
};

// A launch on another lane repeats what the first one told, with prices and counts.
TEST_F(RecordDecoderTest, RepeatsTheBodyOfAGraph) {
  protocol::GraphLaunch launch{};
  launch.lane = 2;
  launch.graph = 7;
  launch.nodes_follow = 1;
  ASSERT_TRUE(Decode(RecordKind::kGraphLaunch, launch).ok());
  protocol::Copy copy{};
  copy.record.flags = protocol::kInGraph;
  copy.lane = 2;
  copy.bytes = 640;
  ASSERT_TRUE(Decode(RecordKind::kCopy, copy).ok());
  protocol::TokenOnLane token{};
  token.record.flags = protocol::kInGraph;
  token.lane = 2;
  token.token = 9;
  ASSERT_TRUE(Decode(RecordKind::kRecordToken, token).ok());
  token.lane = 5;  // the graph's own
  ASSERT_TRUE(Decode(RecordKind::kWaitToken, token).ok());
  protocol::Collective collective{};
  collective.record.flags = protocol::kInGraph;
  collective.lane = 5;
  collective.communicator = 1;
  ASSERT_TRUE(Decode(RecordKind::kCollective, collective).ok());
  ASSERT_TRUE(Decode(RecordKind::kGraphEnd, protocol::Graph{}).ok());
  const uint64_t body = program_.size();
  // What comes between launches is none of the body's.
  copy.record.flags = 0;
  ASSERT_TRUE(Decode(RecordKind::kCopy, copy).ok());
  const uint64_t second = program_.size();

  launch.lane = 3;
  launch.nodes_follow = 0;
  ASSERT_TRUE(Decode(RecordKind::kGraphLaunch, launch, nullptr, 0, 40).ok());
  ASSERT_EQ(program_.size(), second + body);
  for (uint64_t i = 0; i < body; ++i) {
    graph::Op first = program_.op(i);
    const graph::Op& again = program_.op(second + i);
    EXPECT_EQ(again.launch, i == 0 ? 1 : 0);
    EXPECT_EQ(again.host_ns, i == 0 ? 40 : 0);
    first.host_ns = again.host_ns;
    if (first.lane == 2)
      first.lane = 3;
    EXPECT_EQ(again, first);
  }
  EXPECT_EQ(sink_.calls.size(), 2u);
  EXPECT_EQ(decoder_.Totals().bytes, 3 * 640u);

  protocol::Graph forget{};
  forget.graph = 7;
  ASSERT_TRUE(Decode(RecordKind::kGraphForget, forget).ok());
  EXPECT_THAT(std::string(Decode(RecordKind::kGraphLaunch, launch).message()),
              testing::HasSubstr("graph 7 was never launched"));
}

TEST_F(RecordDecoderTest, PricesKernelsAndKeepsTheirTotals) {
  Name(1, "softmax");
  protocol::Kernel kernel{};
  kernel.lane = 2;
  kernel.name = 1;
  for (int i = 0; i < 3; ++i)
    kernel.grid[i] = kernel.block[i] = 1;
  kernel.grid[0] = 40;
  kernel.argument_bytes = 12;
  kernel.reachable_bytes = 3;
  const char arguments[12] = {};
  ASSERT_TRUE(Decode(RecordKind::kKernel, kernel, arguments, 12, 100).ok());
  kernel.reachable_bytes = 600;
  ASSERT_TRUE(Decode(RecordKind::kKernel, kernel, arguments, 12, 100).ok());
  EXPECT_EQ(pricer_.last_arguments, 12u);
  EXPECT_EQ(pricer_.names, std::vector<std::string>{"softmax"});
  EXPECT_EQ(LastOp().kind, OpKind::kWork);
  EXPECT_EQ(LastOp().source, graph::Source::kAssumed);
  EXPECT_EQ(LastOp().launch, 1);
  EXPECT_EQ(LastOp().lane, 2u);
  EXPECT_EQ(LastOp().value, 40);
  EXPECT_EQ(LastOp().b, 600u);
  EXPECT_EQ(LastOp().host_ns, 100);
  const WorkTotals totals = decoder_.Totals();
  EXPECT_EQ(totals.flops, 10u);
  EXPECT_EQ(totals.bytes, 14u);
  const KernelTotal& row = totals.kernels.at({"softmax", graph::Source::kAssumed});
  EXPECT_EQ(row.count, 2u);
  EXPECT_EQ(row.time_ns, 80);
  EXPECT_EQ(row.unseen_ns, 603);
}

TEST_F(RecordDecoderTest, HandsHostTimeOnWhereARecordBecomesNoOp) {
  protocol::Loss loss{};
  loss.amount = 4;
  ASSERT_TRUE(Decode(RecordKind::kLoss, loss, nullptr, 0, 30).ok());
  EXPECT_EQ(program_.size(), 0u);
  protocol::AskClock ask{};
  ask.slot = 5;
  ASSERT_TRUE(Decode(RecordKind::kAskClock, ask, nullptr, 0, 12).ok());
  EXPECT_EQ(LastOp().host_ns, 42);
  ASSERT_EQ(sink_.questions.size(), 1u);
  EXPECT_EQ(sink_.questions[0].second.slot, 5u);
  ASSERT_TRUE(Decode(RecordKind::kLoss, loss, nullptr, 0, 7).ok());
  decoder_.Finish();
  EXPECT_EQ(LastOp().kind, OpKind::kHost);
  EXPECT_EQ(LastOp().host_ns, 7);
}

TEST_F(RecordDecoderTest, KeepsHostTimeOfOneKindPerOp) {
  protocol::Loss loss{};
  loss.record.flags = protocol::kHostTimeAssumed;
  ASSERT_TRUE(Decode(RecordKind::kLoss, loss, nullptr, 0, 30).ok());
  ASSERT_TRUE(Decode(RecordKind::kLoss, loss, nullptr, 0, 4).ok());
  protocol::Lane release{};
  release.lane = 1;
  ASSERT_TRUE(Decode(RecordKind::kReleaseLane, release, nullptr, 0, 12).ok());
  ASSERT_EQ(program_.size(), 2u);
  EXPECT_EQ(program_.op(0).kind, OpKind::kHost);
  EXPECT_EQ(program_.op(0).host_ns, 34);
  EXPECT_EQ(program_.op(0).host_source, graph::Source::kAssumed);
  EXPECT_EQ(LastOp().kind, OpKind::kReleaseLane);
  EXPECT_EQ(LastOp().host_ns, 12);
  EXPECT_EQ(LastOp().host_source, graph::Source::kModelled);
  release.record.flags = protocol::kHostTimeAssumed;
  ASSERT_TRUE(Decode(RecordKind::kReleaseLane, release, nullptr, 0, 5).ok());
  EXPECT_EQ(program_.size(), 3u);
  EXPECT_EQ(LastOp().host_source, graph::Source::kAssumed);
}

TEST_F(RecordDecoderTest, TellsWhatTheProgramItselfTook) {
  protocol::AskClock ask{};
  for (const auto& [flag, source] :
       {std::pair{protocol::kHostTimeMeasured, graph::Source::kMeasured},
        std::pair{protocol::kHostTimeRecorded, graph::Source::kRecorded}}) {
    ask.record.flags = flag;
    ASSERT_TRUE(Decode(RecordKind::kAskClock, ask, nullptr, 0, 12).ok());
    EXPECT_EQ(LastOp().host_source, source);
  }
  const KernelTotal total =
      decoder_.Totals().host.at("the program itself, between calls");
  EXPECT_EQ(total.count, 2u);
  EXPECT_EQ(total.time_ns, 24);
}

TEST_F(RecordDecoderTest, PassesGapsOnAndMakesNoOpOfThem) {
  protocol::HostGaps batch{};
  batch.count = 2;
  const protocol::HostGap gaps[] = {{7, 100}, {8, 200}};
  ASSERT_TRUE(Decode(RecordKind::kHostGaps, batch, gaps, sizeof gaps).ok());
  EXPECT_EQ(program_.size(), 0u);
  ASSERT_EQ(sink_.gaps.size(), 2u);
  EXPECT_EQ(sink_.gaps[1].ns, 200);
  batch.count = 3;  // of which two are there
  EXPECT_FALSE(Decode(RecordKind::kHostGaps, batch, gaps, sizeof gaps).ok());
}

TEST_F(RecordDecoderTest, PassesPeaksOfAnAllocatorOnAndMakesNoOpOfThem) {
  protocol::AllocatorPeak peak{};
  peak.allocated_bytes = 200;
  ASSERT_TRUE(Decode(RecordKind::kAllocatorPeak, peak).ok());
  EXPECT_EQ(program_.size(), 0u);
  EXPECT_EQ(sink_.allocator_peaks, (std::map<uint64_t, uint64_t>{{0, 200}}));
}

TEST_F(RecordDecoderTest, PassesBlocksOfAnAllocatorOnAndMakesNoOpOfThem) {
  using protocol::BlockChange;
  protocol::AllocatorBlocks head{};
  head.count = 2;
  head.incomplete = 1;
  protocol::AllocatorBlock blocks[] = {{0x1000, 512, BlockChange::kTaken, 0},
                                       {0x1000, 512, BlockChange::kGivenBack, 0}};
  ASSERT_TRUE(Decode(RecordKind::kAllocatorBlocks, head, blocks, sizeof blocks).ok());
  EXPECT_EQ(program_.size(), 0u);
  ASSERT_EQ(sink_.blocks.size(), 2u);
  EXPECT_EQ(sink_.blocks[0].bytes, 512u);
  EXPECT_FALSE(sink_.blocks_complete);
  blocks[1].change = static_cast<BlockChange>(3);
  EXPECT_FALSE(Decode(RecordKind::kAllocatorBlocks, head, blocks, sizeof blocks).ok());
  blocks[1].change = BlockChange::kGivenBack;
  head.count = 3;  // of which two are there
  EXPECT_FALSE(Decode(RecordKind::kAllocatorBlocks, head, blocks, sizeof blocks).ok());
}

TEST_F(RecordDecoderTest, KnowsWhoIsShortOfMemory) {
  protocol::Loss loss{};
  loss.loss = static_cast<uint32_t>(LossId::kNoMemoryLeft);
  loss.amount = 1;
  protocol::Memory memory{};
  memory.delta_bytes = -100;
  EXPECT_FALSE(decoder_.is_short_of_memory());
  ASSERT_TRUE(Decode(RecordKind::kLoss, loss).ok());
  ASSERT_TRUE(Decode(RecordKind::kMemory, memory).ok());
  EXPECT_TRUE(decoder_.is_short_of_memory());
  memory.delta_bytes = 100;
  ASSERT_TRUE(Decode(RecordKind::kMemory, memory).ok());
  EXPECT_FALSE(decoder_.is_short_of_memory());
}

TEST_F(RecordDecoderTest, SaysWhichStatedDurationsAreAssumed) {
  protocol::HostFunc function{};
  function.lane = 1;
  function.slot = protocol::kNoSlot;
  ASSERT_TRUE(Decode(RecordKind::kHostFunc, function).ok());
  EXPECT_EQ(LastOp().source, graph::Source::kModelled);
  function.record.flags = protocol::kValueAssumed;
  ASSERT_TRUE(Decode(RecordKind::kHostFunc, function).ok());
  EXPECT_EQ(LastOp().source, graph::Source::kAssumed);
}

TEST_F(RecordDecoderTest, AHostFunctionHasItsDurationOnceItReturns) {
  protocol::HostFunc function{};
  function.lane = 1;
  function.slot = protocol::kNoSlot;
  function.duration_ns = 5;
  ASSERT_TRUE(Decode(RecordKind::kHostFunc, function).ok());
  ASSERT_TRUE(Decode(RecordKind::kHostFunc, function).ok());
  EXPECT_EQ(LastOp().b, graph::kDurationUnknown);
  protocol::HostFuncEnd end{};
  end.number = 2;
  end.took_ns = 70;
  ASSERT_TRUE(Decode(RecordKind::kHostFuncEnd, end).ok());
  EXPECT_EQ(sink_.durations, (std::map<uint64_t, int64_t>{{1, 75}}));
  EXPECT_FALSE(Decode(RecordKind::kHostFuncEnd, end).ok()) << "it has returned before";
  decoder_.Finish();
  EXPECT_EQ(sink_.durations, (std::map<uint64_t, int64_t>{{0, 5}, {1, 75}}))
      << "what never returns takes what it costs";
}

// A watchdog's questions have their place in the order, and nothing else.
TEST_F(RecordDecoderTest, MarksQuestionsOfHelpers) {
  protocol::Loss loss{};
  ASSERT_TRUE(Decode(RecordKind::kLoss, loss, nullptr, 0, 30).ok());
  protocol::HostWait wait{};
  wait.target = 1;
  wait.slot = 2;
  wait.record.flags = protocol::kFromHelper;
  protocol::HostQuery query{};
  query.record.flags = protocol::kFromHelper;
  protocol::AskClock ask{};
  ask.record.flags = protocol::kFromHelper;
  protocol::FetchPayload fetch{};
  fetch.record.flags = protocol::kFromHelper;
  protocol::CommRelease release{};
  release.communicator = 1;
  release.record.flags = protocol::kFromHelper;
  ASSERT_TRUE(Decode(RecordKind::kHostWaitLane, wait).ok());
  ASSERT_TRUE(Decode(RecordKind::kHostWaitToken, wait).ok());
  ASSERT_TRUE(Decode(RecordKind::kHostQuery, query).ok());
  ASSERT_TRUE(Decode(RecordKind::kAskClock, ask).ok());
  ASSERT_TRUE(Decode(RecordKind::kFetchPayload, fetch).ok());
  ASSERT_TRUE(Decode(RecordKind::kCommRelease, release).ok());
  ASSERT_EQ(program_.size(), 6u);
  EXPECT_EQ(sink_.questions.size(), 6u);
  for (uint64_t i = 0; i < program_.size(); ++i) {
    EXPECT_EQ(program_.op(i).from_helper, 1) << i;
    EXPECT_EQ(program_.op(i).host_ns, 0) << i;
  }
  // What needs no answer leaves no trace; the rank's host time goes to its own op.
  query.slot = wait.slot = protocol::kNoSlot;
  ASSERT_TRUE(Decode(RecordKind::kHostQuery, query).ok());
  ASSERT_TRUE(Decode(RecordKind::kHostWaitToken, wait).ok());
  EXPECT_EQ(program_.size(), 6u);
  ASSERT_TRUE(Decode(RecordKind::kHost, protocol::AskClock{}).ok());
  EXPECT_EQ(LastOp().host_ns, 30);
  EXPECT_EQ(LastOp().from_helper, 0);
}

TEST_F(RecordDecoderTest, TellsAskedFromKnownQueries) {
  protocol::HostQuery query{};
  query.target_kind = protocol::QueryTarget::kToken;
  query.target = 9;
  query.slot = protocol::kNoSlot;
  query.known_complete = 1;
  ASSERT_TRUE(Decode(RecordKind::kHostQuery, query).ok());
  EXPECT_EQ(LastOp().b, graph::kAnswerComplete);
  query.slot = 0;
  ASSERT_TRUE(Decode(RecordKind::kHostQuery, query).ok());
  EXPECT_EQ(LastOp().b, graph::kAnswerUnknown);
  EXPECT_EQ(sink_.questions.size(), 1u);
}

TEST_F(RecordDecoderTest, PassesCollectivesAndPayloadsOn) {
  protocol::Payload payload{};
  payload.state = protocol::PayloadState::kKnown;
  payload.bytes = 3;
  ASSERT_TRUE(Decode(RecordKind::kPayload, payload, "abc", 3).ok());
  EXPECT_EQ(sink_.payloads[0].size(), 3u);
  protocol::Collective collective{};
  collective.lane = 1;
  collective.communicator = 1;
  collective.count = 8;
  collective.type = protocol::ElementType::kBfloat16;
  ASSERT_TRUE(Decode(RecordKind::kCollective, collective).ok());
  EXPECT_EQ(LastOp().kind, OpKind::kCollective);
  EXPECT_EQ(sink_.calls[0].count, 8u);
  protocol::PointToPoint group{};
  group.lane = 1;
  group.communicator = 1;
  group.count = 2;
  const protocol::Transfer transfers[2] = {{16, 1, 1}, {16, 1, 0}};
  ASSERT_TRUE(
      Decode(RecordKind::kPointToPoint, group, transfers, sizeof(transfers)).ok());
  EXPECT_EQ(sink_.transfers, 2u);
  EXPECT_EQ(LastOp().value, 0);
  protocol::FetchPayload fetch{};
  fetch.bytes = 4;
  ASSERT_TRUE(Decode(RecordKind::kFetchPayload, fetch).ok());
  EXPECT_EQ(LastOp().kind, OpKind::kAskClock);
  EXPECT_TRUE(sink_.questions.back().second.is_fetch);
}

TEST_F(RecordDecoderTest, NamesRankAndPlaceOfABrokenRecord) {
  protocol::Kernel kernel{};
  kernel.lane = 1;
  kernel.argument_bytes = 4000;
  const absl::Status status = Decode(RecordKind::kKernel, kernel);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              testing::StartsWith("rank 3: record 0 at byte 0"));
}

TEST_F(RecordDecoderTest, RefusesNumbersThatMakeNoSense) {
  protocol::TokenOnLane on_host{};
  EXPECT_FALSE(Decode(RecordKind::kRecordToken, on_host).ok());
  protocol::AskClock no_slot{};
  no_slot.slot = protocol::kNoSlot;
  EXPECT_FALSE(Decode(RecordKind::kAskClock, no_slot).ok());
  protocol::HostFuncEnd unknown{};
  unknown.number = 1;
  EXPECT_FALSE(Decode(RecordKind::kHostFuncEnd, unknown).ok());
  protocol::Range nameless{};
  nameless.name = 4;
  EXPECT_FALSE(Decode(RecordKind::kRangeBegin, nameless).ok());
  protocol::CommInit outside{};
  outside.communicator = 1;
  outside.ranks = 2;
  outside.rank = 2;
  EXPECT_FALSE(Decode(RecordKind::kCommInit, outside).ok());
  protocol::Kernel kernel{};
  Name(1, "refused");
  kernel.lane = kernel.name = 1;
  for (int i = 0; i < 3; ++i)
    kernel.grid[i] = kernel.block[i] = 1;
  EXPECT_THAT(std::string(Decode(RecordKind::kKernel, kernel).message()),
              testing::HasSubstr("'refused' has no bytes"));
  EXPECT_FALSE(Decode(RecordKind::kHost, protocol::AskClock{}, nullptr, 0, -1).ok());
}

// Whatever bytes come, the decoder returns. Run it under the address sanitizer.
TEST_F(RecordDecoderTest, SurvivesRandomRecords) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    // Exactly as large as the record says, so that reading past it is caught.
    const uint32_t words = 2 + static_cast<uint32_t>(random() % 30);
    auto buffer = std::make_unique<uint64_t[]>(words);
    for (uint32_t w = 0; w < words; ++w)
      buffer[w] =
          random() % 4 == 0 ? (uint64_t{random()} << 32 | random()) : random() % 3;
    auto* record = reinterpret_cast<protocol::Record*>(buffer.get());
    record->kind = static_cast<RecordKind>(
        random() % (static_cast<uint32_t>(RecordKind::kCount) + 2));
    record->size = random() % 50 == 0 ? words * 8 - 4 : words * 8;
    if (record->size == words * 8 - 4 || random() % 50 != 0)
      record->host_ns = static_cast<int64_t>(random() % 1000);
    (void)decoder_.Decode(*record);
  }
  EXPECT_GT(program_.size(), 1000u);
}

}  // namespace
}  // namespace vrank::emulator
