// Reading and writing .vtrace files: what goes in comes out, and what is wrong with a
// file is said.

#include "graph/trace/trace_file.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/trace/canonical_order.h"
#include "tests/graph/trace/memory_file.h"
#include "tests/graph/trace/raw_file.h"

namespace vrank::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RandomTrace {
 public:
  explicit RandomTrace(uint32_t seed) : random_(seed) {}

  RankTrace Make() {
    RankTrace trace;
    trace.session = Session();
    for (uint32_t i = Number(20); i > 0; --i)
      trace.names.push_back("name " + std::to_string(i));
    Rows(&trace.calls, [&] {
      return TracedCall{Name(trace),
                        Bit(),
                        Number(99),
                        Number(3),
                        Time(),
                        Time(),
                        static_cast<int32_t>(Number(5))};
    });
    Rows(&trace.work, [&] { return Work(trace); });
    Rows(&trace.syncs, [&] {
      return TracedSync{static_cast<SyncKind>(1 + Number(4)),
                        Number(99),
                        1,
                        Number(9),
                        Number(9),
                        Number(9),
                        Time(),
                        Time()};
    });
    Rows(&trace.event_records, [&] {
      return TracedEventRecord{Number(99), 1, Number(9), Number(9), Number(99)};
    });
    Rows(&trace.streams, [&] {
      return TracedStream{1,  Number(9), static_cast<TracedStream::Kind>(Number(4)),
                          -1, Bit(),     Number(99)};
    });
    Rows(&trace.memory, [&] {
      return TracedMemory{Bit(),     Bit(),           Bit(),        Number(99),
                          Number(9), Number(5) * 512, Number(9999), Time()};
    });
    Rows(&trace.reserves, [&] {
      return TracedReserve{static_cast<MemoryOwner>(Number(3)), Time() - 500,
                           Number(99), Time(), Number(9)};
    });
    Rows(&trace.ranges, [&] {
      return TracedRange{Bit(), Number(3), Number(9), Name(trace), Time()};
    });
    Rows(&trace.overheads, [&] {
      return TracedOverhead{static_cast<TracedOverhead::Kind>(Number(2)), Number(99),
                            Number(3), Time(), Time()};
    });
    Rows(&trace.operations, [&] { return Operation(); });
    Rows(&trace.graph_nodes, [&] { return GraphNode(); });
    Rows(&trace.graph_changes, [&] {
      return TracedGraphChange{Number(3), Number(99), Bit()};
    });
    Rows(&trace.graph_launches, [&] {
      return TracedGraphLaunch{Number(99), Number(3), 1, Number(9)};
    });
    Rows(&trace.nccl_calls, [&] { return NcclCall(); });
    int64_t passed_ns = 0;
    Rows(&trace.host_times, [&] {
      const TracedHostTime row{Bit() ? Source::kMeasured : Source::kRecorded,
                               passed_ns + Time(), 1 + Time()};
      passed_ns = row.end_ns();
      return row;
    });
    trace.dropped_by_cupti = Number(3);
    trace.dropped_by_tracer = Number(3);
    trace.complete = Bit();
    PutInOrder(&trace);
    return trace;
  }

 private:
  uint32_t Number(uint32_t below) {
    return std::uniform_int_distribution<uint32_t>(0, below - 1)(random_);
  }
  bool Bit() { return Number(2) == 1; }
  int64_t Time() { return Number(1000); }
  uint32_t Name(const RankTrace& trace) {
    return Number(static_cast<uint32_t>(trace.names.size()));
  }
  template <typename Row, typename MakeFunction>
  void Rows(std::vector<Row>* rows, MakeFunction make) {
    for (uint32_t i = Number(30); i > 0; --i)
      rows->push_back(make());
  }

  TraceSession Session() {
    TraceSession session;
    session.rank = static_cast<int32_t>(Number(8));
    session.world_size = 8;
    session.real_ranks = {0, 3};
    session.layout = "tp=2,pp=4";
    session.group_hints = {"tp:0-1", "\xff not UTF-8"};
    session.gpu = "h100-sxm5-80gb";
    session.virtual_gpu = Bit();
    session.command = "train --steps 3";
    session.launch_latency_ns = Time();
    session.launch_queue_depth = Number(1024);
    session.work_sources = {{"gemm", {Source::kMeasured}},
                            {"add", {Source::kAssumed, 7}}};
    session.losses = {{"a", 1}, {"b", Number(9)}};
    session.communicators[1] = {"world", {0, 1, 2}, false};
    session.communicators[2] = {"", {}, true};
    return session;
  }
  TracedWork Work(const RankTrace& trace) {
    TracedWork work;
    const WorkClass classes[] = {WorkClass::kKernel, WorkClass::kCopy,
                                 WorkClass::kMemset};
    work.work = classes[Number(3)];
    work.correlation = Number(99);
    work.stream = Number(9);
    work.name = Name(trace);
    work.grid[0] = Number(999);
    work.block[2] = Number(9);
    work.shared_bytes = Number(999);
    work.registers = Number(255);
    work.copy_kind = Number(10);
    work.bytes = Number(99999);
    work.graph_node = Number(3);
    work.start_ns = Time();
    work.end_ns = Time();
    return work;
  }
  TracedOperation Operation() {
    TracedOperation operation;
    operation.correlation = Number(99);
    operation.communicator = Number(3);
    operation.stream = Number(9);
    operation.captured = Number(4);
    operation.is_collective = Bit();
    if (operation.is_collective)
      operation.call = {CollectiveKind::kAllGather, ElementType::kBfloat16,
                        Reduction::kAvg, Number(8), Number(9999)};
    else
      Rows(&operation.transfers, [&] {
        return Transfer{Number(99), Number(8), Bit()};
      });
    return operation;
  }
  TracedGraphNode GraphNode() {
    TracedGraphNode node{
        Number(3), Number(9), Number(9), static_cast<GraphNodeKind>(Number(8)), {}, {}};
    Rows(&node.before, [&] { return Number(9); });
    Rows(&node.operations, [&] { return uint64_t{Number(4)}; });
    return node;
  }
  TracedNcclCall NcclCall() {
    TracedNcclCall call;
    call.kind = static_cast<TracedNcclCall::Kind>(Number(3));
    call.communicator = Number(9);
    call.thread = Number(3);
    call.start_ns = Time();
    call.end_ns = Time();
    if (call.kind == TracedNcclCall::Kind::kRelease) {
      call.release = static_cast<ReleaseKind>(Number(3));
      return call;
    }
    if (call.kind == TracedNcclCall::Kind::kSplit)
      call.creation.parent = 1 + Number(3);
    call.creation.color = static_cast<int32_t>(Number(3)) - 1;
    call.creation.key = static_cast<int32_t>(Number(9));
    call.creation.ranks = Number(9);
    call.creation.unique_id[127] = static_cast<uint8_t>(Number(256));
    call.creation.name = Bit() ? "dp" : "";
    call.told_size = Number(9);
    call.told_index = Number(9);
    return call;
  }

  std::mt19937 random_;
};

// What the bytes say, without the codec under test: equal rows have equal bytes when
// written plain, and different rows have different ones.
TEST(TraceFileTest, ComesBackAsItWasWritten) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const RankTrace trace = RandomTrace(seed).Make();
    const std::string plain = WriteBytes(trace, false);
    for (const bool compress : {false, true}) {
      const auto read = ReadBytes(WriteBytes(trace, compress));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(WriteBytes(*read, false), plain) << "seed " << seed;
      EXPECT_EQ(read->names, trace.names);
      EXPECT_EQ(read->calls.size(), trace.calls.size());
      EXPECT_EQ(read->nccl_calls.size(), trace.nccl_calls.size());
      EXPECT_EQ(read->complete, trace.complete);
      ASSERT_EQ(read->host_times.size(), trace.host_times.size());
      for (size_t i = 0; i < trace.host_times.size(); ++i) {
        EXPECT_EQ(read->host_times[i].source, trace.host_times[i].source);
        EXPECT_EQ(read->host_times[i].after_ns, trace.host_times[i].after_ns);
        EXPECT_EQ(read->host_times[i].ns, trace.host_times[i].ns);
      }
      EXPECT_EQ(read->session.group_hints, trace.session.group_hints);
      EXPECT_EQ(read->session.work_sources, trace.session.work_sources);
    }
  }
}

TEST(TraceFileTest, KeepsEveryField) {
  RankTrace trace;
  trace.names = {"", "cuLaunchKernelEx", "k", "tp"};
  trace.calls = {{.function = 1,
                  .is_driver = true,
                  .correlation = 7,
                  .thread = 0,
                  .start_ns = -5,
                  .end_ns = 9,
                  .result = -2}};
  trace.memory = {{.release = false,
                   .device = true,
                   .is_async = true,
                   .correlation = 7,
                   .stream = 4,
                   .address = 1 << 21,
                   .bytes = 77,
                   .time_ns = 8}};
  TracedNcclCall init;
  init.creation.name = "tp";
  init.creation.unique_id[3] = 9;
  init.told_size = 4;
  init.told_index = 3;
  trace.nccl_calls = {init};
  const auto read = ReadBytes(WriteBytes(trace));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->calls.size(), 1u);
  EXPECT_EQ(read->names[read->calls[0].function], "cuLaunchKernelEx");
  EXPECT_TRUE(read->calls[0].is_driver);
  EXPECT_EQ(read->calls[0].start_ns, -5);
  EXPECT_EQ(read->calls[0].result, -2);
  ASSERT_EQ(read->memory.size(), 1u);
  EXPECT_TRUE(read->memory[0].is_async);
  EXPECT_EQ(read->memory[0].bytes, 77u);
  ASSERT_EQ(read->nccl_calls.size(), 1u);
  EXPECT_EQ(read->nccl_calls[0].creation, init.creation);
  EXPECT_EQ(read->nccl_calls[0].told_index, 3u);
}

std::string ErrorOf(const std::string& bytes, absl::StatusCode code) {
  const auto read = ReadBytes(bytes);
  EXPECT_EQ(read.status().code(), code) << read.status();
  return read.status().ToString();
}

TEST(TraceFileTest, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(ReadTrace("/nowhere/x.vtrace").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf("", absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("'t.vtrace'"), HasSubstr("empty"), HasSubstr("again")));
  EXPECT_THAT(
      ErrorOf("hello, world: this is a text", absl::StatusCode::kInvalidArgument),
      AllOf(HasSubstr("offset 0"), HasSubstr("no .vtrace file")));
  std::string newer = RawFile().End().Bytes();
  newer[4] = 9;
  EXPECT_THAT(ErrorOf(newer, absl::StatusCode::kUnimplemented),
              AllOf(HasSubstr("version 9"), HasSubstr("newer vrank")));
  newer[4] = 0;
  EXPECT_THAT(ErrorOf(newer, absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("format version 0, which no vrank writes"),
                    Not(HasSubstr("newer"))));
}

TEST(TraceFileTest, NoticesEveryFlippedBit) {
  const std::string good = WriteBytes(RandomTrace(1).Make());
  for (size_t bit = 0; bit < good.size() * 8; bit += 5) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(ReadBytes(bad).ok()) << "bit " << bit;
  }
}

TEST(TraceFileTest, RefusesACanonicalFileThatIsCutOff) {
  const std::string good = WriteBytes(RandomTrace(2).Make(), false);
  for (size_t length = 0; length < good.size(); ++length) {
    const std::string error =
        ErrorOf(good.substr(0, length), absl::StatusCode::kDataLoss);
    EXPECT_THAT(error, HasSubstr(length == 0 ? "is empty" : "is cut short")) << length;
  }
}

TEST(TraceFileTest, SaysWhereAFileIsCutOff) {
  const std::string good = WriteBytes(RandomTrace(2).Make(), false);
  EXPECT_THAT(ErrorOf(good.substr(0, 8), absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("offset 0"), HasSubstr("chunk 0 (8 bytes of it")));
  RawFile chunk;
  chunk.Add(trace::Kind::kCall, trace::Call{}).Chunk(trace::Source::kCanonical);
  EXPECT_THAT(ErrorOf(chunk.Bytes(), absl::StatusCode::kDataLoss),
              HasSubstr("behind a whole chunk"));
}

TEST(TraceFileTest, ReadsARawFileUpToItsLastWholeChunk) {
  RawFile file;
  const auto call = [](uint32_t correlation) {
    trace::Call record{};
    record.correlation = correlation;
    record.start_ns = correlation;
    return record;
  };
  file.Add(trace::Kind::kCall, call(1)).Chunk();
  const size_t first = file.Bytes().size();
  for (size_t length = 1; length < first; ++length)
    EXPECT_THAT(ErrorOf(file.Bytes().substr(0, length), absl::StatusCode::kDataLoss),
                HasSubstr("is cut short: it ends in the middle of chunk 0"));
  const std::string all = file.Add(trace::Kind::kCall, call(2)).End().Bytes();
  for (size_t length = first; length < all.size(); ++length) {
    const auto read = ReadBytes(all.substr(0, length));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->calls.size(), 1u);
    EXPECT_FALSE(read->complete);
  }
  const auto read = ReadBytes(all);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->calls.size(), 2u);
  EXPECT_TRUE(read->complete);
}

TEST(TraceFileTest, CountsKindsThatItDoesNotKnow) {
  struct Newer {
    trace::Record record;
    uint64_t something = 7;
  };
  const auto read =
      ReadBytes(RawFile().Add(static_cast<trace::Kind>(999), Newer{}).End().Bytes());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->unknown_records, 1u);
}

TEST(TraceFileTest, RefusesRecordsThatCannotBe) {
  const std::string far = std::string(8, '\xff');  // a record of 4 GiB
  EXPECT_THAT(ErrorOf(RawFile::Pack(far, 1, 0, trace::Source::kCupti),
                      absl::StatusCode::kDataLoss),
              HasSubstr("offset 0"));
  trace::Transfers group{};
  group.count = 1000;
  EXPECT_THAT(ErrorOf(RawFile().Add(trace::Kind::kTransfers, group).Bytes(),
                      absl::StatusCode::kDataLoss),
              HasSubstr("1000 transfers"));
  trace::Collective call{};
  call.operation = static_cast<CollectiveKind>(77);
  EXPECT_THAT(ErrorOf(RawFile().Add(trace::Kind::kCollective, call).Bytes(),
                      absl::StatusCode::kDataLoss),
              HasSubstr("no collective 77"));
}

TEST(TraceFileTest, RefusesHostTimeThatCannotHavePassed) {
  const auto file = [](std::vector<std::pair<int64_t, int64_t>> rows) {
    RawFile raw;
    for (const auto& [after_ns, ns] : rows)
      raw.Add(trace::Kind::kHostTime,
              trace::HostTime{.record = {}, .after_ns = after_ns, .ns = ns});
    return raw.End().Bytes();
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(ReadBytes(file({{0, 5}, {5, 1}, {9, kMost - 9}})).ok());
  EXPECT_THAT(ErrorOf(file({{0, 5}, {4, 1}}), absl::StatusCode::kDataLoss),
              HasSubstr("1 ns of the program after 4 ns of host time, of which 5 ns"));
  for (const std::pair<int64_t, int64_t>& row :
       {std::pair<int64_t, int64_t>(-1, 5), {0, 0}, {7, -2}, {10, kMost - 9}})
    ErrorOf(file({row}), absl::StatusCode::kDataLoss);
}

TEST(TraceFileTest, FinishesASliceWithEqualBytesWhateverTheOrderOfChunks) {
  const auto call = [](uint32_t number) {
    trace::Call record{};
    record.function = number % 2 == 0 ? 20 : 10;
    record.correlation = number;
    record.thread = 4000 + number % 3;
    record.start_ns = 10 * number;
    record.end_ns = 10 * number + 5;
    return record;
  };
  RawFile one, two;
  one.Name(10, "cudaFree").Name(20, "cudaMalloc");
  two.Name(20, "cudaMalloc").Name(10, "cudaFree");
  for (uint32_t i = 1; i <= 20; ++i) {
    one.Add(trace::Kind::kCall, call(i));
    two.Add(trace::Kind::kCall, call(21 - i));
    if (i % 7 == 0)
      one.Chunk();
  }
  const std::string folder = ::testing::TempDir();
  TraceSession session;
  session.rank = 3;
  session.virtual_gpu = true;
  const auto finish = [&](RawFile* raw, const std::string& name) {
    const std::string path = folder + name;
    std::ofstream(path + ".raw") << raw->End().Bytes();
    EXPECT_TRUE(FinishSlice(path + ".raw", session, 3, {}, path).ok());
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string bytes = finish(&one, "one.vtrace");
  EXPECT_EQ(bytes, finish(&two, "two.vtrace"));
  const auto read = ReadTrace(folder + "one.vtrace");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->session.rank, 3);
  EXPECT_EQ(read->calls[0].start_ns, 7);
  EXPECT_EQ(read->calls[0].thread, 0u);
  EXPECT_EQ(read->names[read->calls[0].function], "cudaFree");
  EXPECT_FALSE(std::filesystem::exists(folder + "one.vtrace.part"));
}

}  // namespace
}  // namespace vrank::graph
