// Small jobs, op by op.

#ifndef VRANK_TESTS_GRAPH_REPLAY_ENGINE_FIXTURE_H_
#define VRANK_TESTS_GRAPH_REPLAY_ENGINE_FIXTURE_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/replay/engine.h"
#include "tests/graph/replay/fakes.h"

namespace vrank::graph {

// Latency 100 ns, launch queue of 4, communicator 1: all ranks, created at 1000 + cost.
class EngineFixture : public testing::Test {
 protected:
  static constexpr int64_t kLatency = 100;

  void MakeRanks(int ranks, bool communicator = true) {
    std::vector<int32_t> members;
    for (int i = 0; i < ranks; ++i) {
      members.push_back(i);
      programs.push_back(std::make_unique<Program>(false));
    }
    job.groups.push_back({"world", members});
    if (!communicator)
      return;
    for (int i = 0; i < ranks; ++i)
      Create(i, 1, 0, static_cast<uint32_t>(i));
  }

  Op Make(OpKind kind, int64_t host_ns = 0) {
    Op op;
    op.kind = kind;
    op.lane = 1;
    op.host_ns = host_ns;
    return op;
  }
  Program& P(int rank) { return *programs[static_cast<size_t>(rank)]; }
  void Create(int rank, uint32_t number, int group, uint32_t index) {
    Op op = Make(OpKind::kCreateCommunicator);
    op.a = number;
    op.b = P(rank).AddCreation(InitOf(job, group, index));
    P(rank).Append(op);
  }
  // Ranks 0 and 1, the later one first, ask whether a receive from rank 2 has ended,
  // which has not sent: op 3 of each. `again`: Op::value of the queries.
  void MakeTwoThatAsk(int64_t again = 0) {
    MakeRanks(3);
    for (const int rank : {0, 1}) {
      Transfers(rank, {{5000, 2, 0}});
      Host(rank, rank == 0 ? 9000 : 8000);
      Op query = Make(OpKind::kQueryLane);
      query.b = kAnswerUnknown;
      query.value = again;
      P(rank).Append(query);
    }
  }
  void Host(int rank, int64_t ns) { P(rank).Append(Make(OpKind::kHost, ns)); }
  void Work(int rank, int64_t ns, uint32_t lane = 1, bool launch = false) {
    Op op = Make(OpKind::kWork);
    op.value = ns;
    op.lane = lane;
    op.launch = launch;
    P(rank).Append(op);
  }
  void OnToken(OpKind kind, int rank, uint32_t token, uint32_t lane = 1,
               int64_t value = 0, uint32_t b = 0) {
    Op op = Make(kind);
    op.a = token;
    op.b = b;
    op.lane = lane;
    op.value = value;
    P(rank).Append(op);
  }
  void Collective(int rank, const CollectiveCall& call, uint32_t communicator = 1,
                  uint32_t lane = 1) {
    Op op = Make(OpKind::kCollective);
    op.a = communicator;
    op.lane = lane;
    op.b = P(rank).AddCollective(call);
    P(rank).Append(op);
  }
  void Transfers(int rank, std::vector<Transfer> group, uint32_t lane = 1) {
    Op op = Make(OpKind::kTransfers);
    op.a = 1;
    op.lane = lane;
    op.b = P(rank).AddTransfers(std::move(group));
    P(rank).Append(op);
  }
  void Wait(int rank, uint32_t lane = 1, uint32_t b = 0) {
    Op op = Make(OpKind::kHostWaitLane);
    op.lane = lane;
    op.b = b;
    P(rank).Append(op);
  }

  Engine& Start(bool real = true) {
    EngineOptions options;
    options.launch_latency = Duration::Nanoseconds(kLatency);
    options.launch_queue_depth = 4;
    engine = std::make_unique<Engine>(options, &network, &membership, &observer);
    for (size_t i = 0; i < programs.size(); ++i) {
      if (job.absent.count(static_cast<int32_t>(i)) != 0) {
        engine->AddAbsentRank(static_cast<int32_t>(i));
        continue;
      }
      RankOptions rank;
      rank.real = real && recorded.count(static_cast<int32_t>(i)) == 0;
      engine->AddRank(static_cast<int32_t>(i), programs[i].get(), rank);
    }
    return *engine;
  }
  void RunAll() {
    for (auto& program : programs)
      program->Close();
    Start();
    ASSERT_TRUE(engine->Run().ok());
    ASSERT_TRUE(engine->Finished());
  }
  int64_t EndOf(const std::string& what) { return observer.told.at(what).time.ns; }
  int64_t CollectiveEnd(int member, int sequence = 0) {
    return EndOf(fmt::format("collective world {} {} {}", sequence, member, member));
  }
  int64_t HostEnd(int rank) { return engine->result(rank).end.ns; }
  // Host clock after the creation of communicator 1.
  int64_t Created() {
    return network.Creation(job.groups[0].members).duration.nanoseconds();
  }

  Job job;
  std::set<int32_t> recorded;  // ranks that are not real
  std::vector<std::unique_ptr<Program>> programs;
  FakeNetwork network;
  FakeMembership membership{&job};
  RecordingObserver observer;
  std::unique_ptr<Engine> engine;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_REPLAY_ENGINE_FIXTURE_H_
