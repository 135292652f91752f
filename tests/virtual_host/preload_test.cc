// libvrank_host.so in a process of its own: preload_guest.cc checks from inside, this
// checks what arrived and what is left.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/launch/process_state.h"
#include "tests/emulator/launch/temporary_folder.h"
#include "tests/virtual_host/rank_session.h"
#include "virtual_host/turns/session_end.h"

namespace vrank::host {
namespace {

using emulator::Alive;
using protocol::RecordKind;
using testing::ElementsAre;
using testing::HasSubstr;

std::string TestFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}
std::string Guest() {
  return TestFolder() + "/preload_guest";
}
std::string GuestFolder() {
  return TestFolder() + "/../lib/vrank";
}

class PreloadTest : public testing::TestWithParam<const char*> {};

TEST_P(PreloadTest, PassesFromInside) {
  RankSession session;
  ASSERT_TRUE(session.Start({Guest(), GetParam()}, GuestFolder()).ok());
  ASSERT_TRUE(session.RunToEnd());
  EXPECT_THAT(session.lines, ElementsAre(std::string("passed ") + GetParam()));
  EXPECT_THAT(session.errors, ElementsAre());
  EXPECT_EQ(session.exit, "exit code 0");
}

INSTANTIATE_TEST_SUITE_P(All, PreloadTest,
                         testing::Values("clocks", "sleeps", "helpers", "conditions",
                                         "locks", "descriptors", "forks",
                                         "forks_first"),
                         [](const auto& info) { return std::string(info.param); });

TEST(PreloadRunTest, WritesRangesOfIssuingThreadsWithTheirNames) {
  RankSession session;
  ASSERT_TRUE(
      session
          .Start({Guest(), "ranges"}, GuestFolder(),
                 {{"NVTX_INJECTION64_PATH", GuestFolder() + "/libvrank_host.so"}})
          .ok());
  ASSERT_TRUE(session.RunToEnd());
  EXPECT_THAT(session.lines, ElementsAre("passed ranges"));
  std::map<uint32_t, std::string> names;
  std::vector<std::string> ranges;
  for (const SeenRecord& seen : session.records) {
    if (seen.record().kind == RecordKind::kDefineName) {
      const auto& name = seen.As<protocol::DefineName>();
      names[name.name] = seen.bytes.substr(sizeof name, name.length);
    } else if (seen.record().kind == RecordKind::kRangeBegin) {
      ranges.push_back("+" + names[seen.As<protocol::Range>().name]);
    } else if (seen.record().kind == RecordKind::kRangeEnd) {
      ranges.push_back("-" + names[seen.As<protocol::Range>().name]);
    }
  }
  EXPECT_THAT(ranges, ElementsAre("+step", "+lib::inner", "+wé", "-lib::inner", "-step",
                                  "-wé", "+mark", "-mark"));
}

TEST(PreloadRunTest, OpensTheStandInHoweverItIsNamed) {
  emulator::TemporaryFolder folder;
  std::filesystem::create_symlink(GuestFolder() + "/libvrank_host.so",
                                  folder.File("libvrank_host.so"));
  std::filesystem::create_symlink(TestFolder() + "/libstand_in.so",
                                  folder.File("libcudart.so.13"));
  RankSession session;
  ASSERT_TRUE(
      session
          .Start({Guest(), "opens"}, folder.path(), {{"TEST_LIBRARIES", TestFolder()}})
          .ok());
  ASSERT_TRUE(session.RunToEnd());
  EXPECT_THAT(session.lines, ElementsAre("passed opens"));
}

TEST(PreloadRunTest, ServesShellsAndTheirChildren) {
  RankSession session;
  ASSERT_TRUE(session
                  .Start({"sh", "-c", "sleep 1000; date +%s; echo $(echo deep) | cat"},
                         GuestFolder())
                  .ok());
  ASSERT_TRUE(session.RunToEnd());
  EXPECT_THAT(session.lines, ElementsAre("2000001000", "deep"));
}

TEST(PreloadRunTest, TellsThatTheOwnerHasEnded) {
  RankSession session;
  ASSERT_TRUE(session.Start({Guest(), "clocks"}, GuestFolder()).ok());
  ASSERT_TRUE(session.RunUntil([&] { return session.link->ended(); }));
  EXPECT_FALSE(session.link->connected());
}

TEST(PreloadRunTest, AnswersAreAbortedWithTheReason) {
  RankSession session;
  ASSERT_TRUE(session.Start({Guest(), "question"}, GuestFolder()).ok());
  ASSERT_TRUE(session.RunUntil([&] { return session.link->Blocked(); }));
  session.link->Abort("deadlock of the job");
  ASSERT_TRUE(session.RunToEnd());
  EXPECT_EQ(session.exit, "exit code " + std::to_string(kAbortedExit));
  EXPECT_THAT(session.errors,
              ElementsAre("vrank [rank 0] virtual_host: deadlock of the job"));
}

TEST(PreloadRunTest, EndsProcessesThatCannotConnectWithOneLine) {
  RankSession session;
  ASSERT_TRUE(
      session.Start({"true"}, GuestFolder(), {{"VRANK_SOCKET", "vrank-nobody"}}).ok());
  ASSERT_TRUE(session.RunToEnd());
  EXPECT_EQ(session.exit, "exit code 1");
  ASSERT_EQ(session.errors.size(), 1u);
  EXPECT_THAT(session.errors[0], HasSubstr("no vrank listens"));
  EXPECT_THAT(session.errors[0], HasSubstr("(Connection refused)"));

  RankSession other;
  ASSERT_TRUE(other.Start({"true"}, GuestFolder(), {{"VRANK_RANK", "7"}}).ok());
  ASSERT_TRUE(other.RunToEnd());
  EXPECT_EQ(other.exit, "exit code 1");
  ASSERT_EQ(other.errors.size(), 1u);
  EXPECT_THAT(other.errors[0], HasSubstr("rank 7 does not run for real"));
  EXPECT_EQ(other.events.at(0).kind, emulator::GuestEvent::Kind::kRefused);
}

// No rank's: vrank counts it, and the job is not about it.
TEST(PreloadRunTest, AProcessWithoutTheSessionsTokenIsTurnedAway) {
  for (const std::string& token :
       {std::string(), std::string("00"), std::string(32, '0')}) {
    RankSession session;
    ASSERT_TRUE(session.Start({"true"}, GuestFolder(), {{"VRANK_TOKEN", token}}).ok());
    ASSERT_TRUE(session.RunToEnd());
    EXPECT_EQ(session.exit, "exit code 1");
    ASSERT_EQ(session.errors.size(), 1u);
    EXPECT_THAT(session.errors[0], HasSubstr("VRANK_TOKEN is not this session's"));
    EXPECT_THAT(session.events, testing::IsEmpty());
    EXPECT_EQ(session.server->strangers().counts().size(), 1u);
  }
}

// No keeper here: the end of the connection alone kills, in a session of its own, a
// program, its child after fork, and a grandchild.
TEST(PreloadRunTest, DiesWithVrankByTheConnectionAlone) {
  emulator::TemporaryFolder folder;
  const pid_t vrank = fork();
  if (vrank == 0) {
    auto link = std::move(emulator::GuestLink::Create(TestSettings()).value());
    auto server = std::move(emulator::GuestServer::Create().value());
    server->AddLink(link.get());
    if (fork() == 0) {
      setenv("LD_PRELOAD", (GuestFolder() + "/libvrank_host.so").c_str(), 1);
      setenv("VRANK_SOCKET", server->address().c_str(), 1);
      setenv("VRANK_TOKEN", server->token().c_str(), 1);
      setenv("VRANK_RANK", "0", 1);
      server.reset();
      execlp("sh", "sh", "-c",
             ("setsid " + Guest() + " hang >>" + folder.File("pids") + " & " + Guest() +
              " hang >>" + folder.File("pids") + "; sleep 1000")
                 .c_str(),
             nullptr);
      _exit(1);
    }
    for (;;) {
      pollfd ready{server->poll_fd(), POLLIN, 0};
      poll(&ready, 1, 1000);
      server->HandleEvents();
    }
  }
  std::vector<pid_t> pids;
  for (int i = 0; i < 2000 && pids.size() < 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pids.clear();
    std::ifstream file(folder.File("pids"));
    std::string word;
    pid_t pid;
    while (file >> word >> pid)
      pids.push_back(pid);
  }
  EXPECT_EQ(pids.size(), 4u);
  for (pid_t pid : pids)
    EXPECT_TRUE(Alive(pid));
  kill(vrank, SIGKILL);
  waitpid(vrank, nullptr, 0);
  for (pid_t pid : pids) {
    for (int i = 0; i < 2000 && Alive(pid); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(Alive(pid)) << pid;
  }
}

TEST(PreloadRunTest, DoesNothingWithoutVrank) {
  const std::string command =
      "LD_PRELOAD=" + GuestFolder() + "/libvrank_host.so date +%Y";
  FILE* pipe = popen(command.c_str(), "r");
  int year = 0;
  EXPECT_EQ(fscanf(pipe, "%d", &year), 1);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_LT(year, 2033);  // of the test's virtual clock
}

}  // namespace
}  // namespace vrank::host
