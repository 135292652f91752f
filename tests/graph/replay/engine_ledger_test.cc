// Where the time on a critical path comes from.

#include <gtest/gtest.h>

#include "tests/graph/replay/engine_fixture.h"

namespace vrank::graph {
namespace {

using EngineLedgerTest = EngineFixture;

TEST_F(EngineLedgerTest, TheLedgerFollowsTheCriticalPath) {
  MakeRanks(1, false);
  Op work = Make(OpKind::kWork);
  work.value = 1000;
  work.source = Source::kAssumed;
  P(0).Append(work);  // lane 1: launch latency 100, assumed 1000
  work.lane = 2;
  work.value = 5000;
  work.source = Source::kRecorded;
  P(0).Append(work);
  OnToken(OpKind::kRecordToken, 0, 1, 2);
  OnToken(OpKind::kWaitToken, 0, 1, 1);
  work.lane = 1;
  work.value = 7;
  work.source = Source::kMeasured;
  P(0).Append(work);
  Wait(0);
  RunAll();
  EXPECT_EQ(
      engine->result(0).end,
      (Stamp{.ns = 5107, .recorded = 5000, .measured = 7, .assumed_host = kLatency}));
}

// Which costs of the host are assumed is kept apart from assumed work.
TEST_F(EngineLedgerTest, TheLedgerTellsHostTimeByItsSource) {
  MakeRanks(1, false);
  Op host = Make(OpKind::kHost, 10);
  P(0).Append(host);  // modelled: somebody vouches for it
  host.host_source = Source::kAssumed;
  host.host_ns = 200;
  P(0).Append(host);
  host.host_source = Source::kRecorded;
  host.host_ns = 3000;
  P(0).Append(host);
  Op work = Make(OpKind::kWork, 40'000);
  work.host_source = Source::kMeasured;
  work.source = Source::kAssumed;
  work.value = 500'000;
  P(0).Append(work);
  Op callback = Make(OpKind::kHostFunc);
  callback.source = Source::kAssumed;
  callback.value = 6'000'000;
  P(0).Append(callback);
  Op poll = Make(OpKind::kPollLane);
  poll.source = Source::kAssumed;
  poll.value = 1'000'000;  // looks at 43,210 + n * 1,000,000
  P(0).Append(poll);
  RunAll();
  EXPECT_EQ(engine->result(0).end, (Stamp{.ns = 7'043'210,
                                          .assumed = 500'000,
                                          .recorded = 3000,
                                          .measured = 40'000,
                                          .assumed_host = 7'043'210 - 543'010}));
}

// A guess that is too short to show on the critical path weighs all the same.
TEST_F(EngineLedgerTest, WhatMayTakeLongerWeighsOnEveryPathFromTheLaunch) {
  MakeRanks(2, false);
  for (const int rank : {0, 1}) {
    Op work = Make(OpKind::kWork);
    work.value = 10;
    work.source = Source::kAssumed;
    work.b = 900'000;
    P(rank).Append(work);
    // It waits for the work before it, or for the host.
    work = Make(OpKind::kWork, rank == 0 ? 0 : 70'000);
    work.value = 50'000;
    P(rank).Append(work);
    Wait(rank);
  }
  RunAll();
  EXPECT_EQ(
      engine->result(0).end,
      (Stamp{.ns = 50'010 + kLatency, .assumed = 900'010, .assumed_host = kLatency}));
  EXPECT_EQ(
      engine->result(1).end,
      (Stamp{.ns = 120'000 + kLatency, .assumed = 900'000, .assumed_host = kLatency}));
}

TEST_F(EngineLedgerTest, MakingACommunicatorIsTimeOfTheHost) {
  MakeRanks(2);
  RunAll();
  EXPECT_EQ(engine->result(0).end, (Stamp{.ns = Created(), .assumed_host = Created()}));
}

}  // namespace
}  // namespace vrank::graph
