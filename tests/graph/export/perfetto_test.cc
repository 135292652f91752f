// Reads back what was written, with a decoder that shares nothing with the writer.

#include "graph/export/perfetto.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graph/analysis/timeline.h"
#include "tests/graph/fold/folding_job.h"

namespace vrank::graph {
namespace {

struct Field {
  uint64_t number = 0;
  std::string bytes;
};
using Message = std::multimap<uint32_t, Field>;

uint64_t Varint(const std::string& bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80)
      return value;
  }
}

Message Decode(const std::string& bytes) {
  Message message;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t key = Varint(bytes, at);
    Field field;
    if ((key & 7) == 0) {
      field.number = Varint(bytes, at);
    } else if ((key & 7) == 1) {
      for (size_t i = 0; i < 8; ++i)
        field.number |= uint64_t{static_cast<unsigned char>(bytes.at(at + i))} << 8 * i;
      at += 8;
    } else {
      const uint64_t size = Varint(bytes, at);
      field.bytes = bytes.substr(at, size);
      EXPECT_EQ(field.bytes.size(), size);
      at += size;
    }
    message.emplace(static_cast<uint32_t>(key >> 3), std::move(field));
  }
  return message;
}

uint64_t Number(const Message& message, uint32_t field) {
  const auto at = message.find(field);
  return at == message.end() ? 0 : at->second.number;
}

// A job, replayed with ranks of one timeline folded together, or one by one.
class Replayed {
 public:
  explicit Replayed(uint64_t seed, bool folded = true) : network_(4) {
    FoldingJobOptions options;
    options.classes = 3;
    made_ = MakeFoldingJob(seed, options);
    CutMembership membership(&made_.cuts);
    auto job = ResolveCommunicators(made_.job, &membership);
    EXPECT_TRUE(job.ok());
    job_ = *std::move(job);
    replay_ = std::make_unique<FoldedReplay>(
        &job_, folded ? RefineColours(job_, network_) : SeparateColours(job_.job),
        &network_, timeline.Observers());
    EXPECT_TRUE(replay_->Run().ok());
    timeline.Complete(job_, *replay_);
  }

  std::string Written(PerfettoOptions options = {}) const {
    options.job = &job_;
    options.quotient = &replay_->quotient();
    std::ostringstream out;
    EXPECT_TRUE(WritePerfetto(timeline, options, out).ok());
    return out.str();
  }
  std::vector<int32_t> AllRanks() const {
    std::vector<int32_t> ranks;
    for (const ReplayJob::Rank& rank : job_.job.ranks)
      ranks.push_back(rank.world_rank);
    return ranks;
  }

  Timeline timeline;

 private:
  FoldingJob made_;
  const NodeNetwork network_;
  ResolvedJob job_;
  std::unique_ptr<FoldedReplay> replay_;
};

// What a viewer would show.
struct Shown {
  std::vector<std::string> processes;  // in the order of the file
  // Process, thread, begin, end (-1: open), name.
  using Slice = std::tuple<std::string, std::string, int64_t, int64_t, std::string>;
  std::multiset<Slice> slices;
  // Process and time of an arrow's beginning, and of its end.
  using Arrow = std::tuple<std::string, int64_t, std::string, int64_t>;
  std::multiset<Arrow> arrows;
  // Process, time, bytes.
  std::vector<std::tuple<std::string, int64_t, int64_t>> memory;
};

class Viewer {
 public:
  explicit Viewer(const std::string& trace) {
    for (const auto& [field, packet] : Decode(trace)) {
      EXPECT_EQ(field, 1u);
      Take(Decode(packet.bytes));
    }
    for (const auto& [track, open] : open_)
      for (const auto& [begin, name] : open)
        AddSlice(track, begin, -1, name);
    EXPECT_EQ(flow_begins_.size(), flow_ends_.size());
    for (const auto& [flow, from] : flow_begins_) {
      const auto& to = flow_ends_.at(flow);
      EXPECT_LT(from.second, to.second);
      shown.arrows.emplace(from.first, from.second, to.first, to.second);
    }
  }
  Shown shown;

 private:
  void Take(const Message& packet) {
    // The first packet of the sequence says that nothing is known yet.
    EXPECT_EQ(Number(packet, 10), 1u);
    EXPECT_EQ(Number(packet, 13), packets_++ == 0 ? 1u : 2u);
    if (const auto at = packet.find(12); at != packet.end()) {
      const Message name = Decode(Decode(at->second.bytes).find(2)->second.bytes);
      EXPECT_TRUE(names_.emplace(Number(name, 1), name.find(2)->second.bytes).second);
    } else if (const auto track = packet.find(60); track != packet.end()) {
      TakeTrack(Decode(track->second.bytes));
    } else {
      TakeEvent(static_cast<int64_t>(Number(packet, 8)),
                Decode(packet.find(11)->second.bytes));
    }
  }
  void TakeTrack(const Message& track) {
    const uint64_t uuid = Number(track, 1);
    EXPECT_EQ(tracks_.count(uuid), 0u);
    if (const auto process = track.find(3); process != track.end()) {
      const std::string name = Decode(process->second.bytes).find(6)->second.bytes;
      shown.processes.push_back(name);
      tracks_[uuid] = {name, ""};
      return;
    }
    const std::string& process = tracks_.at(Number(track, 5)).first;
    const auto thread = track.find(4);
    tracks_[uuid] = {process, thread == track.end()
                                  ? track.find(2)->second.bytes
                                  : Decode(thread->second.bytes).find(5)->second.bytes};
  }
  void TakeEvent(int64_t ns, const Message& event) {
    const uint64_t track = Number(event, 11);
    EXPECT_GE(ns, last_[track]);
    last_[track] = ns;
    const std::string& process = tracks_.at(track).first;
    if (Number(event, 9) == 1) {
      open_[track].emplace_back(ns, names_.at(Number(event, 10)));
    } else if (Number(event, 9) == 2) {
      ASSERT_FALSE(open_[track].empty());
      AddSlice(track, open_[track].back().first, ns, open_[track].back().second);
      open_[track].pop_back();
    } else {
      shown.memory.emplace_back(process, ns, static_cast<int64_t>(Number(event, 30)));
    }
    for (auto [at, end] = event.equal_range(47); at != end; ++at)
      EXPECT_TRUE(
          flow_begins_.emplace(at->second.number, std::pair(process, ns)).second);
    for (auto [at, end] = event.equal_range(48); at != end; ++at)
      EXPECT_TRUE(flow_ends_.emplace(at->second.number, std::pair(process, ns)).second);
  }
  void AddSlice(uint64_t track, int64_t begin, int64_t end, const std::string& name) {
    const auto& [process, thread] = tracks_.at(track);
    shown.slices.emplace(process, thread, begin, end, name);
  }

  size_t packets_ = 0;
  std::map<uint64_t, std::string> names_;
  std::map<uint64_t, std::pair<std::string, std::string>> tracks_;
  std::map<uint64_t, int64_t> last_;
  std::map<uint64_t, std::vector<std::pair<int64_t, std::string>>> open_;
  std::map<uint64_t, std::pair<std::string, int64_t>> flow_begins_;
  std::map<uint64_t, std::pair<std::string, int64_t>> flow_ends_;
};

Shown View(const std::string& trace) {
  return Viewer(trace).shown;
}

// "rank 07 and 3 more" is 7.
int32_t RankOf(const std::string& process) {
  return std::stoi(process.substr(5), nullptr, 10);
}

TEST(PerfettoTest, HoldsWhatHappened) {
  size_t slices = 0, arrows = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Replayed replayed(seed);
    const std::string trace = replayed.Written();
    ASSERT_EQ(trace, Replayed(seed).Written());
    const Shown shown = View(trace);
    EXPECT_EQ(shown.processes.size(), replayed.timeline.ranks().size());
    slices += shown.slices.size();
    arrows += shown.arrows.size();
  }
  EXPECT_GT(slices, 1000u);
  EXPECT_GT(arrows, 100u);
}

TEST(PerfettoTest, PutsProcessesInTheOrderOfTheirRanks) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Replayed replayed(seed);
    const std::vector<std::string> names = View(replayed.Written()).processes;
    std::vector<int32_t> ranks;
    for (const std::string& process : names)
      ranks.push_back(RankOf(process));
    EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end())) << "seed " << seed;
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end())) << "seed " << seed;
  }
}

// Ranks that share a timeline, shown one by one, look as if each had been played.
TEST(PerfettoTest, ShowsAnyRankOnItsOwn) {
  size_t arrows = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Replayed folded(seed), apart(seed, false);
    PerfettoOptions all;
    all.ranks = folded.AllRanks();
    const Shown one_by_one = View(folded.Written(all)), real = View(apart.Written());
    EXPECT_EQ(one_by_one.processes, real.processes);
    EXPECT_EQ(one_by_one.slices, real.slices) << "seed " << seed;
    EXPECT_EQ(one_by_one.memory, real.memory);
    EXPECT_EQ(one_by_one.arrows, real.arrows) << "seed " << seed;
    arrows += real.arrows.size();

    PerfettoOptions few;
    few.ranks = {all.ranks[1], all.ranks.back()};
    std::multiset<Shown::Slice> theirs;
    for (const Shown::Slice& slice : real.slices)
      if (RankOf(std::get<0>(slice)) == few.ranks[0] ||
          RankOf(std::get<0>(slice)) == few.ranks[1])
        theirs.insert(slice);
    EXPECT_EQ(View(folded.Written(few)).slices, theirs);
  }
  EXPECT_GT(arrows, 100u);
}

// All of it, on the host's track: what is recorded and measured, and not what else.
TEST(PerfettoTest, ShowsHostTimeByItsSource) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Replayed replayed(seed);
    std::map<std::pair<int32_t, std::string>, int64_t> expected, shown;
    for (const PlayedRank& rank : replayed.timeline.ranks())
      for (uint64_t i = 0; i < rank.program->size(); ++i) {
        const Op& op = rank.program->op(i);
        if (op.host_ns > 0 &&
            (op.host_source == Source::kRecorded ||
             op.host_source == Source::kMeasured || op.kind == OpKind::kHost))
          expected[{rank.world_rank,
                    std::string("host time, ") + Name(op.host_source)}] += op.host_ns;
      }
    for (const auto& [process, thread, begin, end, name] :
         View(replayed.Written()).slices)
      if (name.starts_with("host time")) {
        EXPECT_EQ(thread, "host");
        shown[{RankOf(process), name}] += end - begin;
      }
    EXPECT_EQ(shown, expected) << "seed " << seed;
    EXPECT_GE(shown.size(), 2 * replayed.timeline.ranks().size());
  }
}

// Every rank has a span of its own; what goes beyond it is cut there.
TEST(PerfettoTest, ShowsOfEachRankItsOwnSpan) {
  size_t left_out = 0, cut = 0, arrows = 0, fewer_arrows = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Replayed replayed(seed);
    const Shown whole = View(replayed.Written());
    int64_t end = 0;
    for (const Shown::Slice& slice : whole.slices)
      end = std::max(end, std::get<3>(slice));
    PerfettoOptions options;
    std::map<int32_t, PerfettoSpan> spans;
    for (const PlayedRank& rank : replayed.timeline.ranks()) {
      const auto shift = static_cast<int64_t>(options.spans.size()) * end / 50;
      options.spans.push_back({end / 3 + shift, end / 2 + shift});
      spans[rank.world_rank] = options.spans.back();
    }
    const auto span_of = [&](const std::string& process) {
      return spans.at(RankOf(process));
    };
    std::multiset<Shown::Slice> expected;
    for (Shown::Slice slice : whole.slices) {
      auto& [process, thread, from, to, name] = slice;
      const PerfettoSpan span = span_of(process);
      const int64_t last = to < 0 ? std::numeric_limits<int64_t>::max() : to;
      const bool is_moment = from == last;
      if (from >= span.end_ns ||
          (is_moment ? from < span.begin_ns : last <= span.begin_ns)) {
        ++left_out;
        continue;
      }
      cut += from < span.begin_ns || last > span.end_ns ? 1 : 0;
      from = std::max(from, span.begin_ns);
      to = std::min(last, span.end_ns);
      expected.insert(slice);
    }
    const Shown part = View(replayed.Written(options));
    EXPECT_EQ(part.slices, expected) << "seed " << seed;

    std::multiset<Shown::Arrow> between;
    const auto begins_inside = [&](const std::string& process, int64_t ns) {
      return ns >= span_of(process).begin_ns && ns < span_of(process).end_ns;
    };
    for (const Shown::Arrow& arrow : whole.arrows)
      if (begins_inside(std::get<0>(arrow), std::get<1>(arrow)) &&
          begins_inside(std::get<2>(arrow), std::get<3>(arrow)))
        between.insert(arrow);
    EXPECT_EQ(part.arrows, between) << "seed " << seed;
    arrows += between.size();
    fewer_arrows += whole.arrows.size() - between.size();

    for (const auto& [process, ns, bytes] : part.memory) {
      EXPECT_GE(ns, span_of(process).begin_ns);
      EXPECT_LT(ns, span_of(process).end_ns);
    }
  }
  EXPECT_GT(left_out, 100u);
  EXPECT_GT(cut, 10u);
  EXPECT_GT(arrows, 10u);
  EXPECT_GT(fewer_arrows, 10u);
}

TEST(PerfettoTest, SaysWhereTheTraceCouldNotBeWritten) {
  std::ofstream nowhere("/nonexistent/trace");
  EXPECT_EQ(WritePerfetto(Timeline(), {}, nowhere).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace vrank::graph
