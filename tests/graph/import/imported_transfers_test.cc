// Sends and receives couple the ranks that were recorded, in every form in which
// PyTorch's profiler states them.

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/import/kineto_import.h"
#include "tests/graph/import/hand_profile.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/replayed_graph.h"

namespace vrank::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;
constexpr char kSendRecv[] = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

// How a recording states the peer of a transfer.
enum class Form {
  kBoth,       // "Src Rank" and "Dst Rank", at the kernel
  kPeer,       // the peer's, at the kernel
  kPlace,      // "Rank", its place in the group, at the call around the launch
  kGroupOf2,   // nothing but a group of two
  kBatch,      // "batch_op_issue": nothing but sizes (PyTorch 2.15)
  kAnnotation  // "nccl:send 0->1"
};

std::string Metadata(Form form, int rank, int peer, bool sends, int64_t elements) {
  std::string text = fmt::format(
      R"("Collective name": "{0}", "In msg nelems": {1}, "Out msg nelems": {1}, )"
      R"("dtype": "BFloat16", "Process Group Name": "0")",
      sends ? "send" : "recv", elements);
  const int from = sends ? rank : peer, to = sends ? peer : rank;
  if (form == Form::kBoth || (form == Form::kPeer && !sends))
    text += fmt::format(R"(, "Src Rank": {})", from);
  if (form == Form::kBoth || (form == Form::kPeer && sends))
    text += fmt::format(R"(, "Dst Rank": {})", to);
  return text;
}

// A send or a receive from `begin_us`, launched 20 us after `launch_us`.
void Transfer(Form form, int rank, int peer, bool sends, int64_t launch_us,
              int64_t begin_us, int64_t us, HandProfile* profile,
              int64_t elements = 1 << 24) {
  std::string at_kernel = Metadata(form, rank, peer, sends, elements);
  switch (form) {
    case Form::kPlace:
      profile->Operator("record_param_comms", launch_us, 40,
                        at_kernel + fmt::format(R"(, "Rank": {}, "Group size": 3, )"
                                                R"("Process Group Ranks": "[0, 1, 2]")",
                                                peer));
      break;
    case Form::kGroupOf2:
      at_kernel += R"(, "Group size": 2, "Process Group Ranks": "[0, 1]")";
      break;
    case Form::kBatch:
      at_kernel = fmt::format(
          R"("Collective name": "batch_op_issue", "In msg nelems": {}, )"
          R"("Out msg nelems": {}, "dtype": "BFloat16", "Process Group Name": "0", )"
          R"("Group size": 3, "Process Group Ranks": "[]")",
          sends ? elements : 0, sends ? 0 : elements);
      break;
    case Form::kAnnotation:
      profile->Range(fmt::format("nccl:{} {}{}{}", sends ? "send" : "recv", rank,
                                 sends ? "->" : "<-", peer),
                     launch_us, 40);
      at_kernel = "";
      break;
    default:
      break;
  }
  profile->Kernel(kSendRecv, launch_us + 20, begin_us, us, 20, at_kernel);
}

// A call of a batch, which launches nothing.
void BatchCall(int rank, int peer, bool sends, int64_t at_us, HandProfile* profile) {
  profile->Operator("record_param_comms", at_us, 5,
                    Metadata(Form::kPeer, rank, peer, sends, 1 << 24));
}

absl::StatusOr<ImportedRun> ImportAll(const std::vector<HandProfile>& profiles) {
  const ProfileFiles files;
  KinetoImportOptions options;
  for (size_t i = 0; i < profiles.size(); ++i)
    options.files.push_back(files.Write(fmt::format("{}.json", i), profiles[i].Text()));
  return ImportKineto(options);
}

std::map<std::string, uint64_t> Losses(const ImportedRun& run) {
  std::map<std::string, uint64_t> counts;
  for (const ExecutionGraph::Loss& loss : run.graph.losses)
    if (loss.name.rfind("event_waits", 0) != 0 &&
        loss.name.rfind("synchronisations", 0) != 0)
      counts[loss.name] += loss.count;
  return counts;
}

std::vector<int64_t> Iterations(const ExecutionGraph& graph) {
  const auto replayed = ReplayImported(graph);
  EXPECT_TRUE(replayed.ok()) << replayed.status();
  std::vector<int64_t> times;
  if (replayed.ok())
    for (const auto& [rank, one] : *replayed)
      times.push_back(one.iterations_ns.at(0));
  return times;
}

// Rank 0 computes for 10 ms and sends; rank 1 receives and computes for 10 ms.
std::vector<HandProfile> Pipeline(Form form) {
  std::vector<HandProfile> profiles{HandProfile(0, 3), HandProfile(1, 3)};
  HandProfile &first = profiles[0], &second = profiles[1];
  first.Step(0, 1000, 10'300);
  first.Kernel("gemm", 1100, 1110, 10'000);
  first.Call("cudaEventRecord", 1120, 1);
  first.Call("cudaStreamWaitEvent", 1122, 1);
  Transfer(form, 0, 1, true, 1180, 11'112, 100, &first);
  first.Call("cudaDeviceSynchronize", 1300, 9'990);
  second.Step(0, 1000, 20'400);
  Transfer(form, 1, 0, false, 1180, 1215, 9'997, &second);
  second.Call("cudaEventRecord", 1225, 1);
  second.Call("cudaStreamWaitEvent", 1230, 1);
  second.Kernel("gemm", 1300, 11'213, 10'000);
  second.Call("cudaDeviceSynchronize", 1400, 19'990);
  return profiles;
}

TEST(ImportedTransfersTest, ASlowSenderDelaysItsReceiver) {
  for (const Form form : {Form::kBoth, Form::kPeer, Form::kPlace, Form::kGroupOf2,
                          Form::kBatch, Form::kAnnotation}) {
    SCOPED_TRACE(static_cast<int>(form));
    auto run = ImportAll(Pipeline(form));
    ASSERT_TRUE(run.ok()) << run.status();
    if (form == Form::kBatch)
      EXPECT_EQ(Losses(*run),
                (std::map<std::string, uint64_t>{{"transfers_of_inferred_peers", 2}}));
    else
      EXPECT_THAT(Losses(*run), IsEmpty());
    const std::vector<int64_t> before = Iterations(run->graph);
    ASSERT_EQ(before.size(), 2u);
    EXPECT_NEAR(static_cast<double>(before[0]), 10.3e6, 2e3);
    EXPECT_NEAR(static_cast<double>(before[1]), 20.4e6, 2e3);
    Lengthen(0, 0, 10 * kMs, &run->graph);
    const std::vector<int64_t> after = Iterations(run->graph);
    EXPECT_EQ(after[0] - before[0], 10 * kMs);
    EXPECT_EQ(after[1] - before[1], 10 * kMs);
  }
}

// What the third rank of three sends was not recorded.
TEST(ImportedTransfersTest, ATransferWithAnAbsentRankLastsAsRecorded) {
  HandProfile profile(0, 3);
  profile.Step(0, 1000, 200);
  Transfer(Form::kPeer, 0, 2, false, 1010, 1040, 9'000, &profile);
  const auto run = ImportAll({profile, Pipeline(Form::kPeer)[1]});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Losses(*run),
            (std::map<std::string, uint64_t>{{"transfers_as_recorded", 2}}));
  const auto replayed = ReplayImported(run->graph);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->at(0).ends_ns.at(0), 9'040'000);
}

// Each rank of a ring sends to the next and receives from the one before in one kernel,
// which states nothing.
std::vector<HandProfile> Ring(int ranks) {
  std::vector<HandProfile> profiles;
  for (int rank = 0; rank < ranks; ++rank) {
    HandProfile profile(rank, ranks);
    profile.Step(0, 1000, 8000);
    const int64_t compute_us = 1000 * (1 + rank);
    profile.Kernel("gemm", 1010, 1020, compute_us);
    profile.Call("cudaEventRecord", 1030, 1);
    profile.Call("cudaStreamWaitEvent", 1032, 1);
    BatchCall(rank, (rank + 1) % ranks, true, 1040, &profile);
    BatchCall(rank, (rank + ranks - 1) % ranks, false, 1046, &profile);
    profile.Range("nccl:coalesced", 1052, 20);
    const int64_t begin_us = 1020 + compute_us;
    const int64_t latest_us = 1020 + 1000 * ranks;
    profile.Kernel(kSendRecv, 1060, begin_us, latest_us + 500 - begin_us, 20);
    profile.Call("cudaDeviceSynchronize", 1100, 7800);
    profiles.push_back(profile);
  }
  return profiles;
}

TEST(ImportedTransfersTest, ABatchMeetsAllOfItsPeers) {
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    auto run = ImportAll(Ring(ranks));
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_THAT(Losses(*run), IsEmpty());
    ASSERT_EQ(run->graph.communicators.size(), 1u);
    const auto before = ReplayImported(run->graph);
    ASSERT_TRUE(before.ok()) << before.status();
    for (const RecordedRank& rank : run->graph.recorded_ranks)
      EXPECT_NEAR(static_cast<double>(before->at(rank.rank).ends_ns[1]),
                  static_cast<double>(rank.ends_ns[1]), 1e3)
          << rank.rank;
    // Beyond the slack that waiting leaves to rank 0.
    Lengthen(0, 0, ranks * kMs, &run->graph);
    const auto after = ReplayImported(run->graph);
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_GT(after->at(1).ends_ns[1], before->at(1).ends_ns[1]);
    EXPECT_GT(after->at(ranks - 1).ends_ns[1], before->at(ranks - 1).ends_ns[1]);
  }
}

// A batch of which the profiler lost one side: the others stay coupled.
TEST(ImportedTransfersTest, ALostReceiveIsCounted) {
  const auto rank = [](int own, int lost) {
    HandProfile profile(own, 2);
    for (int step = 0; step < 4; ++step) {
      const int64_t at_us = 1000 + 5000 * step;
      profile.Step(step, at_us, 5000);
      for (int i = 0; i < 3; ++i)
        if (4 * step + i != lost)
          Transfer(Form::kPeer, own, 1 - own, own == 0, at_us + 10 + 1000 * i,
                   at_us + 60 + 1000 * i + 100 * own, 800 - 100 * own, &profile);
    }
    return profile;
  };
  const auto run = ImportAll({rank(0, -1), rank(1, 5)});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Losses(*run),
            (std::map<std::string, uint64_t>{{"transfers_as_recorded", 1}}));
  EXPECT_TRUE(ReplayImported(run->graph).ok());
}

// Its bytes were in NCCL's buffer: the receiver decides nothing.
TEST(ImportedTransfersTest, ASmallSendDoesNotWaitForItsReceive) {
  const auto ranks = [](int64_t elements) {
    std::vector<HandProfile> profiles{HandProfile(0, 2), HandProfile(1, 2)};
    profiles[0].Step(0, 1000, 500);
    Transfer(Form::kPeer, 0, 1, true, 1010, 1040, 20, &profiles[0], elements);
    profiles[1].Step(0, 1000, 5000);
    profiles[1].Kernel("gemm", 1010, 1020, 3000, 20);
    Transfer(Form::kPeer, 1, 0, false, 1040, 4020, 20, &profiles[1], elements);
    return profiles;
  };
  for (const bool small : {true, false}) {
    auto run = ImportAll(ranks(small ? 100 : 1 << 24));
    ASSERT_TRUE(run.ok()) << run.status();
    const auto before = ReplayImported(run->graph);
    Lengthen(1, 0, kMs, &run->graph);
    const auto after = ReplayImported(run->graph);
    ASSERT_TRUE(before.ok() && after.ok());
    EXPECT_EQ(after->at(0).ends_ns[0] - before->at(0).ends_ns[0], small ? 0 : kMs);
  }
}

TEST(ImportedTransfersTest, RanksWithoutASharedTransferAreRefused) {
  std::vector<HandProfile> profiles{HandProfile(0, 2), HandProfile(1, 2)};
  for (int rank = 0; rank < 2; ++rank) {
    profiles[static_cast<size_t>(rank)].Step(0, 1000, 500);
    Transfer(Form::kPeer, rank, 1 - rank, rank == 0, 1010, 1040, 20,
             &profiles[static_cast<size_t>(rank)], 100 + rank);
  }
  EXPECT_THAT(
      ImportAll(profiles).status().ToString(),
      AllOf(HasSubstr("1 sends of rank 0"), HasSubstr("rank 1"), HasSubstr("one run")));
}

}  // namespace
}  // namespace vrank::graph
