// Reads schedules back with a parser and a simulator of the test's own: processes do
// their ops in order, and a message is there as soon as it is sent.

#include "graph/export/goal.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/fold/replay.h"
#include "tests/graph/fold/folding_job.h"

namespace vrank::graph {
namespace {

struct ParsedOp {
  std::string what;
  int64_t ns = 0;
  int peer = 0;
  int64_t tag = 0;
};

std::vector<std::vector<ParsedOp>> Parse(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::vector<ParsedOp>> processes;
  std::string word;
  size_t count = 0;
  in >> word >> count;
  EXPECT_EQ(word, "num_ranks");
  std::string line;
  int labels = 0;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first == "rank") {
      EXPECT_EQ(second, std::to_string(processes.size()));
      processes.emplace_back();
      labels = 0;
    } else if (!second.empty() && first.back() == ':') {
      EXPECT_EQ(first, fmt::format("l{}:", ++labels));
      ParsedOp op{second};
      std::string bytes, direction, tag;
      if (second == "calc")
        words >> op.ns;
      else
        words >> bytes >> direction >> op.peer >> tag >> op.tag;
      processes.back().push_back(op);
    } else if (second == "requires") {
      std::string before;
      words >> before;
      EXPECT_EQ(first, fmt::format("l{}", labels));
      EXPECT_EQ(before, fmt::format("l{}", labels - 1));
    }
  }
  EXPECT_EQ(processes.size(), count);
  return processes;
}

// The end of each process; empty where some never end.
std::vector<int64_t> Simulate(const std::vector<std::vector<ParsedOp>>& processes) {
  std::vector<int64_t> now(processes.size(), 0);
  std::vector<size_t> next(processes.size(), 0);
  std::map<std::tuple<int, int, int64_t>, int64_t> messages;  // from, to, tag
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < processes.size(); ++i) {
      const int own = static_cast<int>(i);
      for (; next[i] < processes[i].size(); ++next[i], moved = true) {
        const ParsedOp& op = processes[i][next[i]];
        if (op.what == "calc") {
          now[i] += op.ns;
        } else if (op.what == "send") {
          EXPECT_TRUE(
              messages.emplace(std::tuple(own, op.peer, op.tag), now[i]).second);
        } else {
          const auto message = messages.find({op.peer, own, op.tag});
          if (message == messages.end())
            break;
          now[i] = std::max(now[i], message->second);
        }
      }
    }
  }
  for (size_t i = 0; i < processes.size(); ++i) {
    if (next[i] != processes[i].size())
      return {};
  }
  return now;
}

TEST(GoalTest, EndsWhenTheReplayDoes) {
  int written = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    FoldingJobOptions options;
    options.classes = 1 + seed % 3;
    options.replicas = 2 + seed % 5;
    options.events = 30;
    options.stragglers = static_cast<int>(seed % 2);
    FoldingJob made = MakeFoldingJob(seed, options);
    if (seed % 3 == 0) {
      for (ReplayJob::Rank& rank : made.job.ranks)
        rank.options.jitter = {100'000, seed};
    }
    const NodeNetwork network(1 + static_cast<int32_t>(seed % 4));
    CutMembership membership(&made.cuts);
    const auto job = ResolveCommunicators(made.job, &membership);
    ASSERT_TRUE(job.ok());
    Timeline timeline;
    FoldedReplay replay(&*job, SeparateColours(job->job), &network,
                        timeline.Observers());
    ASSERT_TRUE(replay.Run().ok());
    timeline.Complete(*job, replay);
    std::ostringstream out;
    uint64_t bytes = 0;
    const auto facts = WriteGoal(timeline, out, [&bytes](uint64_t told) {
      bytes = told;
      return absl::OkStatus();
    });
    if (absl::IsUnimplemented(facts.status()))
      continue;
    ASSERT_TRUE(facts.ok()) << facts.status();
    ASSERT_EQ(bytes, out.str().size());
    std::ostringstream none;
    ASSERT_TRUE(absl::IsResourceExhausted(WriteGoal(timeline, none, [](uint64_t) {
                                            return absl::ResourceExhaustedError(
                                                "no room");
                                          }).status()));
    ASSERT_EQ(none.str(), "");
    const std::vector<int64_t> ends = Simulate(Parse(out.str()));
    ASSERT_EQ(ends.size(), facts->processes) << "seed " << seed << ": never ends";
    EXPECT_EQ(*std::max_element(ends.begin(), ends.end()), facts->end_ns) << seed;
    for (size_t place = 0; place < timeline.ranks().size(); ++place) {
      const int32_t rank = timeline.ranks()[place].world_rank;
      ASSERT_EQ(ends[facts->hosts[place]], replay.result(rank).end.ns)
          << "seed " << seed << ", rank " << rank;
    }
    ++written;
  }
  // Most random jobs poll, or group transfers of different costs.
  EXPECT_GT(written, 10);
}

}  // namespace
}  // namespace vrank::graph
