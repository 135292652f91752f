// Who belongs to a group: as recorded, in whatever form; by time where nothing says so;
// else not at all.

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

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kAllReduce[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";

// A rank of four that all-reduces at `begin_us`. `params`: of record_param_comms around
// it; `args`: of the kernel.
HandProfile OneAllReduce(int rank, int64_t begin_us, const std::string& params,
                         const std::string& args) {
  HandProfile profile(rank, 4);
  profile.Step(0, begin_us, 5000);
  profile.Operator("record_param_comms", begin_us + 10, 50, params);
  profile.Range("nccl:all_reduce", begin_us + 11, 40);
  profile.Kernel(kAllReduce, begin_us + 20, begin_us + 40, 3000, 20, args);
  return profile;
}

struct Imported {
  std::vector<std::vector<int32_t>> groups;
  std::map<std::string, uint64_t> losses;  // about groups
};

Imported ImportAll(const std::vector<HandProfile>& profiles) {
  const ProfileFiles files;
  KinetoImportOptions options;
  for (size_t i = 0; i < profiles.size(); ++i)
    options.files.push_back(files.Write(fmt::format("{}.json", i), profiles[i].Text()));
  const auto import = ImportKineto(options);
  EXPECT_TRUE(import.ok()) << import.status();
  Imported result;
  if (!import.ok())
    return result;
  for (const ExecutionGraph::Communicator& one : import->graph.communicators)
    result.groups.push_back(one.members);
  for (const ExecutionGraph::Loss& loss : import->graph.losses)
    if (loss.name.rfind("collectives_", 0) == 0)
      result.losses[loss.name] += loss.count;
  EXPECT_TRUE(ReplayImported(import->graph).ok());
  return result;
}

TEST(ImportedGroupsTest, AreThoseOfTheInputsOfTheCall) {
  std::vector<HandProfile> profiles;
  for (int rank = 0; rank < 4; ++rank)
    profiles.push_back(OneAllReduce(
        rank, 1000,
        fmt::format(
            R"("Concrete Inputs": ["", "5", "", "0", "", "[]", "[]", "{}", "1", "2"])",
            rank / 2 * 2),
        ""));
  const Imported imported = ImportAll(profiles);
  EXPECT_THAT(imported.groups, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(imported.losses, IsEmpty());
}

// The rows name the group alone, or shorten its ranks; the header lists them.
TEST(ImportedGroupsTest, AreThoseOfTheHeaderByName) {
  for (const char* const ranks : {"", R"(, "Process Group Ranks": "[0, ...]")"}) {
    std::vector<HandProfile> profiles;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string pair = rank < 2 ? "tp0" : "tp1";
      profiles.push_back(OneAllReduce(
          rank, 1000, "",
          fmt::format(R"("Collective name": "allreduce", "In msg nelems": 1024, )"
                      R"("dtype": "Float", "Process Group Name": "{}"{})",
                      pair, ranks)));
      profiles.back().Group("0", 4, "0, 1, 2, 3");
      profiles.back().Group(pair, 2, rank < 2 ? "0, 1" : "2, 3");
    }
    const Imported imported = ImportAll(profiles);
    EXPECT_THAT(imported.groups, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
    EXPECT_THAT(imported.losses, IsEmpty());
  }
}

// PyTorch leaves out the ranks of the world.
TEST(ImportedGroupsTest, OfTheSizeOfTheWorldAreTheWorld) {
  std::vector<HandProfile> profiles;
  for (int rank = 0; rank < 4; ++rank) {
    profiles.push_back(OneAllReduce(
        rank, 1000, "",
        R"("Collective name": "allreduce", "In msg nelems": 1024, "dtype": "Float", )"
        R"("Process Group Name": "0")"));
    profiles.back().Group("0", 4, "");
  }
  const Imported imported = ImportAll(profiles);
  EXPECT_THAT(imported.groups, ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(imported.losses, IsEmpty());
}

// A world of 4 is none of the groups: nothing happened on all ranks at one time.
TEST(ImportedGroupsTest, AreTheRanksOfOneTimeWhereNothingIsRecorded) {
  std::vector<HandProfile> profiles;
  for (int rank = 0; rank < 4; ++rank)
    profiles.push_back(OneAllReduce(rank, rank < 2 ? 1000 : 201'000, "", ""));
  const Imported imported = ImportAll(profiles);
  EXPECT_THAT(imported.groups, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(imported.losses,
              ElementsAre(std::pair("collectives_of_inferred_members", 4)));
}

TEST(ImportedGroupsTest, AreTheWorldWhereAllRanksAreOfOneTime) {
  std::vector<HandProfile> profiles;
  for (int rank = 0; rank < 4; ++rank)
    profiles.push_back(OneAllReduce(rank, 1000 + rank, "", ""));
  const Imported imported = ImportAll(profiles);
  EXPECT_THAT(imported.groups, ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(imported.losses,
              ElementsAre(std::pair("collectives_of_inferred_members", 4)));
}

// Two of four, and nothing says which: their kernels last as recorded.
TEST(ImportedGroupsTest, AreLeftOutWhereTheRanksAreNotKnown) {
  const std::string two = R"("Collective name": "allreduce", "In msg nelems": 64, )"
                          R"("Out msg nelems": 64, "Group size": 2, "dtype": "Float")";
  std::vector<HandProfile> profiles;
  for (int rank = 0; rank < 4; ++rank)
    profiles.push_back(OneAllReduce(rank, 1000, "", two));
  const Imported imported = ImportAll(profiles);
  EXPECT_THAT(imported.groups, IsEmpty());
  EXPECT_THAT(imported.losses,
              ElementsAre(std::pair("collectives_of_unknown_members", 4)));
}

TEST(ImportedGroupsTest, AShortenedListOfRanksDoesNotRefuseARank) {
  const std::string shortened =
      R"("Collective name": "allreduce", "In msg nelems": 64, "Out msg nelems": 64, )"
      R"("Group size": 3, "dtype": "Float", "Process Group Ranks": "[0, 1, ...]")";
  const Imported imported = ImportAll({OneAllReduce(1, 1000, "", shortened)});
  EXPECT_THAT(imported.groups, IsEmpty());
  EXPECT_THAT(imported.losses,
              ElementsAre(std::pair("collectives_of_unknown_members", 1)));
}

}  // namespace
}  // namespace vrank::graph
