// What is written is read back; equal graphs are equal files; broken files are errors.

#include "graph/file/graph_file.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/crc32c.h"
#include "tests/graph/file/sample_graph.h"

namespace vrank::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<ExecutionGraph> Decode(const std::string& bytes) {
  auto copy =
      std::shared_ptr<unsigned char[]>(static_cast<unsigned char*>(std::aligned_alloc(
                                           64, (bytes.size() + 64) / 64 * 64)),
                                       [](unsigned char* at) { std::free(at); });
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return DecodeGraph("job.vgraph", {copy.get(), bytes.size()}, copy);
}

std::string ErrorOf(const std::string& bytes) {
  const auto graph = Decode(bytes);
  return graph.ok() ? "" : std::string(graph.status().message());
}

// A header of other content with a right checksum.
std::string WithHeaderField(std::string bytes, size_t offset, uint64_t value,
                            size_t size) {
  std::memcpy(bytes.data() + offset, &value, size);
  std::memset(bytes.data() + 12, 0, 4);
  const uint32_t crc = Crc32c(bytes.data(), 64);
  std::memcpy(bytes.data() + 12, &crc, 4);
  return bytes;
}

TEST(GraphFileTest, ReadsBackWhatWasWritten) {
  const ExecutionGraph graph = SampleGraph(10'000);
  const std::string bytes = *EncodeGraph(graph);
  const auto read = Decode(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->programs.size(), 1u);
  const Program &a = *graph.programs[0], &b = *read->programs[0];
  ASSERT_EQ(a.size(), b.size());
  for (uint64_t op = 0; op < a.size(); ++op)
    ASSERT_EQ(a.op(op), b.op(op)) << op;
  EXPECT_TRUE(b.closed());
  EXPECT_EQ(a.details().collectives, b.details().collectives);
  EXPECT_EQ(a.details().creations, b.details().creations);
  EXPECT_EQ(a.details().names, b.details().names);
  EXPECT_EQ(read->layout, graph.layout);
  EXPECT_EQ(read->ranks[1].leader, 0);
  EXPECT_EQ(read->communicators[0].members, graph.communicators[0].members);
  EXPECT_EQ(read->losses[0].count, 7u);
  // All of it: what was read is written as the same bytes.
  EXPECT_EQ(*EncodeGraph(*read), bytes);
}

// A program may name its ranges as it likes.
TEST(GraphFileTest, KeepsNamesThatAreNoText) {
  ExecutionGraph graph = SampleGraph(8);
  const std::string name = "\xff\xfe range";
  graph.programs[0] = std::make_unique<Program>(true);
  graph.programs[0]->Append(
      Op{.kind = OpKind::kRangeBegin, .a = graph.programs[0]->AddName(name)});
  graph.programs[0]->Close();
  const auto read = Decode(*EncodeGraph(graph));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->programs[0]->details().names[1], name);
}

TEST(GraphFileTest, WritesEqualGraphsAsEqualBytes) {
  EXPECT_EQ(*EncodeGraph(SampleGraph(500)), *EncodeGraph(SampleGraph(500)));
}

TEST(GraphFileTest, KeepsTheFileMappedWhileAProgramLives) {
  const std::string path = testing::TempDir() + "/mapped.vgraph";
  ASSERT_TRUE(WriteGraph(SampleGraph(5000), path).ok());
  std::unique_ptr<Program> program;
  {
    auto graph = OpenGraph(path);
    ASSERT_TRUE(graph.ok()) << graph.status();
    program = std::move(graph->programs[0]);
  }
  std::remove(path.c_str());
  EXPECT_EQ(program->op(4999), SampleGraph(5000).programs[0]->op(4999));
}

TEST(GraphFileTest, NamesWhatIsWrongWithAFile) {
  const std::string good = *EncodeGraph(SampleGraph(100));
  EXPECT_THAT(ErrorOf(""), HasSubstr("graph 'job.vgraph': the file is empty"));
  EXPECT_THAT(ErrorOf("something else entirely"), HasSubstr("this is no .vgraph file"));
  EXPECT_THAT(ErrorOf(good.substr(0, 40)), HasSubstr("truncated after 40 bytes"));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() - 1)), HasSubstr("bytes of"));
  EXPECT_THAT(ErrorOf(WithHeaderField(good, 8, 2, 4)),
              HasSubstr("format version 2, this build reads 1-1; use a newer vrank"));
  EXPECT_THAT(ErrorOf(WithHeaderField(good, 8, 0, 4)),
              AllOf(HasSubstr("format version 0, which no vrank writes"),
                    Not(HasSubstr("newer"))));
  EXPECT_THAT(ErrorOf(WithHeaderField(good, 24, good.size() + 1, 8)),
              HasSubstr("its metadata lies outside the file"));
  EXPECT_THAT(ErrorOf(WithHeaderField(good, 40, 1, 8)), HasSubstr("another size"));
  EXPECT_THAT(std::string(OpenGraph("/nowhere/job.vgraph").status().message()),
              HasSubstr("graph '/nowhere/job.vgraph': No such file"));
  EXPECT_THAT(std::string(OpenGraph(testing::TempDir()).status().message()),
              HasSubstr("no regular file"));
}

TEST(GraphFileTest, RefusesEveryOpThatRefersToNothing) {
  auto error_with = [](auto change) {
    ExecutionGraph graph = SampleGraph(8);
    Op op = graph.programs[0]->op(7);
    change(&op);
    graph.programs[0] = WithOp(*graph.programs[0], 7, op);
    return ErrorOf(*EncodeGraph(graph));
  };
  EXPECT_EQ(error_with([](Op*) {}), "");
  const auto refused = HasSubstr("program 0: op 7 (kind");
  EXPECT_THAT(error_with([](Op* op) { op->kind = static_cast<OpKind>(20); }), refused);
  EXPECT_THAT(error_with([](Op* op) { op->source = static_cast<Source>(4); }), refused);
  EXPECT_THAT(error_with([](Op* op) { op->work = static_cast<WorkClass>(6); }),
              refused);
  EXPECT_THAT(error_with([](Op* op) { op->host_ns = -1; }), refused);
  for (const OpKind kind : {OpKind::kWork, OpKind::kRangeBegin, OpKind::kRangeEnd})
    EXPECT_THAT(error_with([&](Op* op) { *op = Op{.kind = kind, .lane = 1, .a = 99}; }),
                refused);
  for (const OpKind kind : {OpKind::kCollective, OpKind::kTransfers,
                            OpKind::kCreateCommunicator, OpKind::kReleaseCommunicator})
    EXPECT_THAT(
        error_with([&](Op* op) { *op = Op{.kind = kind, .lane = 1, .a = 1, .b = 99}; }),
        refused);
  for (const OpKind kind : {OpKind::kWork, OpKind::kHostWaitLane, OpKind::kReleaseLane,
                            OpKind::kWaitToken, OpKind::kPollLane, OpKind::kQueryLane})
    EXPECT_THAT(error_with([&](Op* op) { *op = Op{.kind = kind, .lane = 0}; }),
                refused);
  for (const OpKind kind : {OpKind::kHostWaitToken, OpKind::kQueryToken,
                            OpKind::kPollToken, OpKind::kRecordToken})
    EXPECT_THAT(
        error_with([&](Op* op) { *op = Op{.kind = kind, .lane = 1, .a = 1u << 24}; }),
        refused);
  EXPECT_THAT(error_with([](Op* op) {
                *op = Op{.kind = OpKind::kQueryLane, .lane = 1, .b = kAnswerUnknown};
              }),
              refused);
  // Only a guess weighs more than it takes.
  EXPECT_THAT(
      error_with([](Op* op) { *op = Op{.kind = OpKind::kWork, .lane = 1, .b = 1}; }),
      refused);
}

// What would take an executor out of its arrays, or into waits without an end.
TEST(GraphFileTest, RefusesOpsThatNoRankIssues) {
  // In place of the op before the last one, and of that.
  const auto error_with = [](const Op& first, const Op& second) {
    ExecutionGraph graph = SampleGraph(8);
    graph.programs[0] = WithOp(*graph.programs[0], 6, first);
    graph.programs[0] = WithOp(*graph.programs[0], 7, second);
    return ErrorOf(*EncodeGraph(graph));
  };
  const Op host{.kind = OpKind::kHost};
  const auto first = HasSubstr("program 0: op 6 (kind"),
             second = HasSubstr("program 0: op 7 (kind");
  EXPECT_EQ(error_with(host, host), "");
  EXPECT_THAT(error_with(Op{.kind = OpKind::kHost, .launch = 1}, host), first);
  EXPECT_THAT(error_with(Op{.kind = OpKind::kQueryToken, .launch = 1}, host), first);
  EXPECT_EQ(error_with(Op{.kind = OpKind::kQueryToken, .from_helper = 1}, host), "");
  EXPECT_THAT(error_with(Op{.kind = OpKind::kWork, .from_helper = 1, .lane = 1}, host),
              first);
  EXPECT_THAT(
      error_with(Op{.kind = OpKind::kCreateCommunicator, .from_helper = 1, .a = 2},
                 host),
      first);
  // Arrays by number are no longer than the program explains.
  EXPECT_EQ(error_with(Op{.kind = OpKind::kHostWaitToken, .a = 1000}, host), "");
  EXPECT_THAT(error_with(Op{.kind = OpKind::kHostWaitToken, .a = (1u << 24) - 1}, host),
              first);
  EXPECT_THAT(
      error_with(Op{.kind = OpKind::kHostWaitLane, .lane = (1u << 20) - 1}, host),
      first);
  // Communicator 1 is created by op 0.
  EXPECT_THAT(error_with(Op{.kind = OpKind::kCreateCommunicator, .a = 1}, host), first);
  EXPECT_THAT(error_with(Op{.kind = OpKind::kCollective, .lane = 1, .a = 2}, host),
              first);
  const Op release{.kind = OpKind::kReleaseCommunicator, .a = 1, .b = 1};
  EXPECT_EQ(error_with(release, host), "");
  EXPECT_THAT(error_with(release, release), second);
  EXPECT_THAT(error_with(release, Op{.kind = OpKind::kCollective, .lane = 1, .a = 1}),
              second);
  // Sums that leave 64 bits.
  const Op years{.kind = OpKind::kHost, .host_ns = int64_t{1} << 59};
  EXPECT_EQ(error_with(years, host), "");
  EXPECT_THAT(error_with(years, years), second);
  const Op pebibyte{.kind = OpKind::kMemory, .value = int64_t{1} << 60};
  EXPECT_THAT(error_with(pebibyte, pebibyte), second);
}

TEST(GraphFileTest, RefusesAJobThatIsTooLong) {
  ExecutionGraph graph = SampleGraph(8);
  graph.programs[0] = WithOp(*graph.programs[0], 7,
                             Op{.kind = OpKind::kHost, .host_ns = int64_t{3} << 58});
  EXPECT_EQ(ErrorOf(*EncodeGraph(graph)), "");
  graph.world_size = 8;
  graph.layout = "dp=8";
  graph.ranks.resize(8, {0, 0, 0});
  graph.classes[0].ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_THAT(ErrorOf(*EncodeGraph(graph)), HasSubstr("its ranks work for"));
}

TEST(GraphFileTest, RefusesDetailsThatMakeNoSense) {
  const auto error_with = [](auto change) {
    ExecutionGraph graph = SampleGraph(8);
    Details details = graph.programs[0]->details();
    change(&details, &graph);
    auto ops = std::make_shared<std::vector<Op>>();
    for (uint64_t i = 0; i < graph.programs[0]->size(); ++i)
      ops->push_back(graph.programs[0]->op(i));
    graph.programs[0] =
        std::make_unique<Program>(std::span<const Op>(*ops), std::move(details), ops);
    return ErrorOf(*EncodeGraph(graph));
  };
  using G = ExecutionGraph;
  EXPECT_EQ(error_with([](Details*, G*) {}), "");
  EXPECT_THAT(error_with([](Details*, G* g) { g->launch_queue_depth = 0; }),
              HasSubstr("launch queue depth 0"));
  EXPECT_THAT(error_with([](Details*, G* g) { g->launch_latency_ns = INT64_MAX; }),
              HasSubstr("launch latency"));
  EXPECT_THAT(error_with([](Details*, G* g) {
                g->classes[0].ranks = {0, 0};
              }),
              HasSubstr("class 'all'"));
  EXPECT_THAT(error_with([](Details*, G* g) { g->classes[0].ranks = {0}; }),
              HasSubstr("rank 1 has class"));
  EXPECT_THAT(error_with([](Details*, G* g) { g->communicators[0].members.clear(); }),
              HasSubstr("communicator 'world' has no member"));
  EXPECT_THAT(error_with([](Details* d, G*) { d->creations[0].local_members = 0; }),
              HasSubstr("0 members in one process"));
  EXPECT_THAT(error_with([](Details* d, G*) {
                d->creations[0].excluded = {1, 1};
              }),
              HasSubstr("must ascend"));
  EXPECT_THAT(
      error_with([](Details* d, G*) { d->collectives[0].count = ~uint64_t{0}; }),
      HasSubstr("collective 0"));
  EXPECT_THAT(
      error_with([](Details* d, G*) { d->transfer_groups[0][0].bytes = ~uint64_t{0}; }),
      HasSubstr("a transfer of more than"));
}

TEST(GraphFileTest, RefusesRanksThatReferToNothing) {
  auto error_with = [](auto change) {
    ExecutionGraph graph = SampleGraph(8);
    change(&graph);
    return ErrorOf(*EncodeGraph(graph));
  };
  EXPECT_THAT(error_with([](ExecutionGraph* g) { g->ranks[1].program = 1; }),
              HasSubstr("rank 1 has class 0, program 1"));
  EXPECT_THAT(error_with([](ExecutionGraph* g) { g->ranks[1].leader = 2; }),
              HasSubstr("leader 2"));
  EXPECT_THAT(error_with([](ExecutionGraph* g) { g->ranks[1].rank_class = 5; }),
              HasSubstr("class 'all' has rank 1"));
  EXPECT_THAT(error_with([](ExecutionGraph* g) { g->ranks.pop_back(); }),
              HasSubstr("1 of 2 ranks"));
  EXPECT_THAT(error_with([](ExecutionGraph* g) { g->classes[0].ranks[0] = -1; }),
              HasSubstr("class 'all'"));
  EXPECT_THAT(error_with([](ExecutionGraph* g) { g->communicators[0].members[0] = 2; }),
              HasSubstr("communicator 'world'"));
}

TEST(GraphFileTest, NoticesEveryFlippedBit) {
  const ExecutionGraph graph = SampleGraph(21);
  const std::string good = *EncodeGraph(graph);
  // There is padding, too.
  ASSERT_NE(graph.programs[0]->size() * sizeof(Op) % 64, 0u);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    ASSERT_FALSE(Decode(bad).ok()) << at;
  }
}

TEST(GraphFileTest, SurvivesAnyTruncationAndNoise) {
  const std::string good = *EncodeGraph(SampleGraph(20));
  for (size_t size = 0; size < good.size(); ++size)
    ASSERT_NE(ErrorOf(good.substr(0, size)), "") << size;
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string bad = good;
    for (int flips = 0; flips < 8; ++flips)
      bad[random() % bad.size()] = static_cast<char>(random());
    // Also behind a right header.
    (void)Decode(WithHeaderField(bad, 16, good.size(), 8));
  }
}

}  // namespace
}  // namespace vrank::graph
