#include "tests/graph/import/simulated_run.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vrank::graph {
namespace {

using Kind = SimulatedStep::Kind;

// What calls take, beside waits.
constexpr int64_t kLaunchNs = 4'000;
constexpr int64_t kEventNs = 500;
constexpr int64_t kSyncNs = 2'000;
constexpr int64_t kHandOverNs = 3'000;
// A moment since 1970, as profilers write it.
constexpr int64_t kEpochNs = 1'700'000'000'000'000'000;

// One pass with the collectives' ends as far as they are known.
SimulatedTimes::Rank Play(const SimulatedRun::Rank& rank,
                          const std::vector<int64_t>& collective_ends) {
  SimulatedTimes::Rank times;
  int64_t host = rank.begin_ns;
  std::array<int64_t, SimulatedRun::kStreams> stream_end{};
  size_t collective = 0;
  for (const SimulatedStep& step : rank.steps) {
    const int64_t begin = host;
    const auto stream = static_cast<size_t>(step.stream);
    switch (step.kind) {
      case Kind::kHost:
        host += step.ns;
        break;
      case Kind::kOtherThread:
        host += kHandOverNs;
        break;
      case Kind::kKernel:
      case Kind::kAllReduce: {
        SimulatedTimes::Work work;
        work.call_ns = host;
        work.begin_ns = std::max(stream_end[stream], host + SimulatedRun::kLatencyNs);
        work.end_ns = work.begin_ns + step.ns;
        if (step.kind == Kind::kAllReduce)
          work.end_ns = std::max(work.begin_ns, collective_ends[collective++]);
        stream_end[stream] = work.end_ns;
        times.works.push_back(work);
        host += kLaunchNs;
        break;
      }
      case Kind::kStreamWait:
        stream_end[stream] =
            std::max(stream_end[stream], stream_end[static_cast<size_t>(step.other)]);
        host += 2 * kEventNs;
        break;
      case Kind::kStreamSync:
        host = std::max(host, stream_end[stream]) + kSyncNs;
        break;
      case Kind::kDeviceSync:
        host = std::max(host, *std::max_element(stream_end.begin(), stream_end.end())) +
               kSyncNs;
        break;
    }
    times.calls.push_back({begin, host});
  }
  times.end_ns = host;
  return times;
}

std::string Time(int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

class Profile {
 public:
  Profile(const ProfileOptions& options, int rank, int ranks)
      : options_(options), rank_(rank), ranks_(ranks) {}

  void Add(const char* category, const std::string& name, int64_t thread,
           int64_t begin_ns, int64_t end_ns, const std::string& args) {
    events_.push_back(fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, )"
        R"("dur": {}, "args": {{{}}}}})",
        category, name, 100 + rank_, thread, Time(kEpochNs + begin_ns),
        Time(end_ns - begin_ns), args));
  }
  void AddCall(const char* name, int64_t begin_ns, int64_t end_ns) {
    Add("cuda_runtime", name, thread, begin_ns, end_ns,
        fmt::format(R"("correlation": {})", ++correlation));
  }
  void AddWork(const SimulatedTimes::Work& work, int stream, bool collective) {
    AddCall("cudaLaunchKernel", work.call_ns, work.call_ns + kLaunchNs);
    std::string args = fmt::format(R"("device": {}, "stream": {}, "correlation": {})",
                                   rank_, 7 + stream, correlation);
    if (collective) {
      std::vector<int> all(static_cast<size_t>(ranks_));
      std::iota(all.begin(), all.end(), 0);
      args += fmt::format(R"(, "Collective name": "allreduce", "In msg nelems": {}, )"
                          R"("Out msg nelems": {}, "dtype": "{}", "Group size": {}, )"
                          R"("Process Group Name": "0", "Process Group Ranks": "[{}]")",
                          options_.elements, options_.elements, options_.type, ranks_,
                          fmt::join(all, ", "));
    }
    Add("kernel",
        !collective            ? "void gemm<float>(x)"
        : correlation % 2 == 0 ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
                               : "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32(x)",
        7 + stream, work.begin_ns, work.end_ns, args);
  }
  void AddSync(const char* kind, const std::string& args) {
    if (options_.syncs)
      Add("cuda_sync", kind, 0, 0, 0,
          fmt::format(R"("cuda_sync_kind": "{}", "device": {}, "correlation": {}{})",
                      kind, rank_, correlation, args));
  }
  std::string ToString() const {
    return fmt::format(
        R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "GPU"}}], )"
        "{}"
        R"("distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}}, )"
        "\n\"traceEvents\": [\n{}\n]}}\n",
        options_.members, rank_, ranks_, fmt::join(events_, ",\n"));
  }

  int64_t thread = 1;
  int64_t correlation = 0;

 private:
  const ProfileOptions& options_;
  const int rank_, ranks_;
  std::vector<std::string> events_;
};

}  // namespace

SimulatedRun RandomRun(std::mt19937* random, int ranks, int steps) {
  const auto below = [random](int64_t limit) {
    return static_cast<int64_t>((*random)() % static_cast<uint64_t>(limit));
  };
  SimulatedRun run;
  run.ranks.resize(static_cast<size_t>(ranks));
  for (SimulatedRun::Rank& rank : run.ranks) {
    rank.begin_ns = below(200'000);
    // The first launch finds an idle stream: the shortest latency shows.
    rank.steps.push_back({Kind::kKernel, 10'000, 0, 0});
  }
  for (int i = 0; i < steps; ++i) {
    // Ranks differ in everything but their collectives.
    const bool meet = below(6) == 0;
    const int64_t cost = 10'000 + below(100'000);
    for (SimulatedRun::Rank& rank : run.ranks) {
      const int stream = static_cast<int>(below(SimulatedRun::kNcclStream));
      const int other = static_cast<int>(below(SimulatedRun::kStreams));
      if (meet) {
        rank.steps.push_back({Kind::kStreamWait, 0, SimulatedRun::kNcclStream, stream});
        rank.steps.push_back({Kind::kAllReduce, cost, SimulatedRun::kNcclStream, 0});
        rank.steps.push_back({Kind::kStreamWait, 0, stream, SimulatedRun::kNcclStream});
        continue;
      }
      switch (below(10)) {
        case 0:
          rank.steps.push_back({Kind::kStreamSync, 0, stream, 0});
          break;
        case 1:
          rank.steps.push_back({Kind::kDeviceSync, 0, 0, 0});
          break;
        case 2:
          if (other != stream)
            rank.steps.push_back({Kind::kStreamWait, 0, stream, other});
          break;
        case 3:
          rank.steps.push_back({Kind::kOtherThread, 0, 0, 0});
          break;
        case 4:
        case 5:
          rank.steps.push_back({Kind::kHost, 1'000 + below(30'000), 0, 0});
          break;
        default:
          rank.steps.push_back({Kind::kKernel, 1'000 + below(60'000), stream, 0});
      }
    }
  }
  for (SimulatedRun::Rank& rank : run.ranks)
    rank.steps.push_back({Kind::kDeviceSync, 0, 0, 0});
  return run;
}

SimulatedTimes Simulate(const SimulatedRun& run) {
  std::vector<int64_t> costs;
  for (const SimulatedStep& step : run.ranks.front().steps)
    if (step.kind == Kind::kAllReduce)
      costs.push_back(step.ns);
  // Ends only grow from pass to pass, and each pass settles one more collective.
  std::vector<int64_t> ends(costs.size(), 0);
  SimulatedTimes times;
  for (size_t pass = 0; pass <= costs.size() + 1; ++pass) {
    times.ranks.clear();
    std::vector<int64_t> arrivals(costs.size(), 0);
    for (const SimulatedRun::Rank& rank : run.ranks) {
      times.ranks.push_back(Play(rank, ends));
      size_t work = 0, collective = 0;
      for (const SimulatedStep& step : rank.steps) {
        if (step.kind == Kind::kAllReduce) {
          arrivals[collective] =
              std::max(arrivals[collective], times.ranks.back().works[work].begin_ns);
          ++collective;
        }
        work += step.kind == Kind::kAllReduce || step.kind == Kind::kKernel ? 1 : 0;
      }
    }
    for (size_t i = 0; i < ends.size(); ++i)
      ends[i] = arrivals[i] + costs[i];
  }
  return times;
}

std::string ProfileOf(const SimulatedRun& run, const SimulatedTimes& times, int rank,
                      const ProfileOptions& options) {
  const SimulatedRun::Rank& from = run.ranks[static_cast<size_t>(rank)];
  const SimulatedTimes::Rank& at = times.ranks[static_cast<size_t>(rank)];
  Profile profile(options, rank, static_cast<int>(run.ranks.size()));
  profile.Add("user_annotation", "ProfilerStep#1", 1, from.begin_ns, at.end_ns, "");
  size_t work = 0;
  for (size_t i = 0; i < from.steps.size(); ++i) {
    const SimulatedStep& step = from.steps[i];
    const SimulatedTimes::Call& call = at.calls[i];
    switch (step.kind) {
      case Kind::kHost:
        profile.Add("cpu_op", "aten::add", profile.thread, call.begin_ns, call.end_ns,
                    "");
        break;
      case Kind::kOtherThread:
        profile.thread = 3 - profile.thread;
        break;
      case Kind::kKernel:
      case Kind::kAllReduce:
        profile.AddWork(at.works[work++], step.stream, step.kind == Kind::kAllReduce);
        break;
      case Kind::kStreamWait:
        profile.AddCall("cudaEventRecord", call.begin_ns, call.begin_ns + kEventNs);
        profile.AddCall("cudaStreamWaitEvent", call.begin_ns + kEventNs, call.end_ns);
        profile.AddSync(
            "Stream Wait Event",
            fmt::format(R"(, "stream": {}, "wait_on_stream": {}, )"
                        R"("wait_on_cuda_event_record_corr_id": {})",
                        7 + step.stream, 7 + step.other, profile.correlation - 1));
        break;
      case Kind::kStreamSync:
        profile.AddCall("cudaStreamSynchronize", call.begin_ns, call.end_ns);
        profile.AddSync("Stream Sync",
                        fmt::format(R"(, "stream": {})", 7 + step.stream));
        break;
      case Kind::kDeviceSync:
        profile.AddCall("cudaDeviceSynchronize", call.begin_ns, call.end_ns);
        profile.AddSync("Context Sync", R"(, "stream": -1)");
        break;
    }
  }
  return profile.ToString();
}

}  // namespace vrank::graph
