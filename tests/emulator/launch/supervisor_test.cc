// Ranks are shell scripts here, without preloaded libraries: what is tested is that the
// keeper and vrank alone leave nothing behind.

#include "emulator/launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/launch/process_state.h"
#include "tests/emulator/launch/temporary_folder.h"

namespace vrank::emulator {
namespace {

using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;

// Serves a Supervisor and remembers what it was told.
struct Session {
  std::map<uint32_t, std::vector<std::string>> out, err;
  std::map<uint32_t, std::string> exits;
  std::vector<int> interrupts;
  std::unique_ptr<Supervisor> supervisor;
  absl::Status status;

  Session() {
    SupervisorCallbacks callbacks;
    callbacks.on_line = [this](uint32_t rank, bool is_stderr, std::string_view text) {
      (is_stderr ? err : out)[rank].emplace_back(text);
    };
    callbacks.on_exit = [this](uint32_t rank, const ExitStatus& status) {
      exits[rank] = status.Describe();
    };
    callbacks.on_interrupt = [this](int signal) { interrupts.push_back(signal); };
    supervisor = std::move(Supervisor::Create(callbacks).value());
  }

  absl::Status Start(const std::string& script, uint32_t ranks = 1,
                     LaunchOptions options = {}) {
    options.command = {"sh", "-c", script};
    options.preload = {};
    std::vector<RankPlace> places;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      places.push_back({rank, ranks, rank, ranks});
    return supervisor->StartRanks(options, places);
  }

  // Until `done` or an error.
  template <typename Done>
  bool RunUntil(Done done, int seconds = 20) {
    const auto end = steady_clock::now() + std::chrono::seconds(seconds);
    while (!done() && status.ok() && steady_clock::now() < end) {
      pollfd ready{supervisor->poll_fd(), POLLIN, 0};
      poll(&ready, 1, 20);
      status = supervisor->HandleEvents();
    }
    return done();
  }
  bool RunToEnd(int seconds = 20) {
    return RunUntil([this] { return supervisor->AllExited(); }, seconds);
  }
};

template <typename Condition>
bool Soon(Condition condition, int seconds = 10) {
  const auto end = steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// A rank with a child, a child in a session of its own, and a daemon whose parent has
// ended; each writes its pid into `pids`. None of them listens to SIGTERM.
std::string FamilyScript(const TemporaryFolder& folder) {
  const std::string pids = folder.File("pids");
  return "trap '' TERM; echo $$ >> " + pids + "; sh -c \"" +
         "trap '' TERM; echo \\$\\$ >> " + pids + "; sleep 1000; sleep 999\" & " +
         "setsid sh -c 'echo $$ >> " + pids + "; exec sleep 1000' & " +
         "(setsid sh -c 'echo $$ >> " + pids +
         "; exec sleep 1000' &) ; wait; sleep 1000";
}
constexpr size_t kFamily = 4;

std::vector<pid_t> ReadPids(const TemporaryFolder& folder) {
  std::vector<pid_t> pids;
  std::ifstream file(folder.File("pids"));
  for (pid_t pid; file >> pid;)
    pids.push_back(pid);
  return pids;
}

bool AllDead(const std::vector<pid_t>& pids) {
  for (pid_t pid : pids) {
    if (Alive(pid))
      return false;
  }
  return true;
}

TEST(SupervisorTest, RelaysOutputAndExitCodesOfEachRank) {
  Session session;
  ASSERT_TRUE(
      session.Start("echo out $RANK of $WORLD_SIZE; echo err $RANK >&2; exit $RANK", 3)
          .ok());
  EXPECT_TRUE(session.RunToEnd());
  EXPECT_TRUE(session.status.ok()) << session.status;
  EXPECT_THAT(session.out[2], ElementsAre("out 2 of 3"));
  EXPECT_THAT(session.err[1], ElementsAre("err 1"));
  EXPECT_EQ(session.exits[0], "exit code 0");
  EXPECT_EQ(session.exits[2], "exit code 2");
}

TEST(SupervisorTest, ReportsASignalByName) {
  Session session;
  ASSERT_TRUE(session.Start("kill -SEGV $$").ok());
  EXPECT_TRUE(session.RunToEnd());
  EXPECT_EQ(session.exits[0], "killed by signal 11 (Segmentation fault)");
}

TEST(SupervisorTest, GivesRanksFixedAddressesAndNoInput) {
  Session session;
  ASSERT_TRUE(session.Start("cat; cat /proc/self/personality").ok());
  EXPECT_TRUE(session.RunToEnd());
  const bool refused = session.supervisor->addresses_randomized();
  EXPECT_THAT(session.out[0], ElementsAre(refused ? "00000000" : "00040000"));
}

TEST(SupervisorTest, RelaysMuchOutputOfManyRanks) {
  Session session;
  ASSERT_TRUE(session.Start("seq 1 200000; printf 'no line break'", 4).ok());
  EXPECT_TRUE(session.RunToEnd(60));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(session.out[rank].size(), 200001u);
    EXPECT_EQ(session.out[rank][199999], "200000");
    EXPECT_EQ(session.out[rank][200000], "no line break");
  }
}

TEST(SupervisorTest, WritesLogsAndNamesAFolderThatIsNotThere) {
  TemporaryFolder folder;
  LaunchOptions options;
  options.log_folder = folder.path();
  Session session;
  ASSERT_TRUE(session.Start("echo logged; echo bad >&2", 1, options).ok());
  EXPECT_TRUE(session.RunToEnd());
  EXPECT_EQ(folder.Read("rank0.out"), "logged\n");
  EXPECT_EQ(folder.Read("rank0.err"), "bad\n");

  Session other;
  options.log_folder = folder.File("missing");
  EXPECT_THAT(other.Start(":", 1, options).ToString(), HasSubstr("missing"));
}

// The disk is full when the rank says its last words, which are read when it has ended.
TEST(SupervisorTest, RemovesLogsThatCannotBeWrittenToTheirEnd) {
  TemporaryFolder folder;
  ASSERT_EQ(symlink("/dev/full", folder.File("rank1.err").c_str()), 0);
  LaunchOptions options;
  options.log_folder = folder.path();
  Session session;
  ASSERT_TRUE(session.Start("echo logged; echo bad >&2", 2, options).ok());
  // The failure, or the ranks' ends, whichever is seen first.
  static_cast<void>(session.RunToEnd());
  session.supervisor->Shutdown(Duration());
  EXPECT_THAT(session.supervisor->log_error().ToString(),
              testing::AllOf(HasSubstr("rank1.err"), HasSubstr("No space left")));
  for (const char* name : {"rank0.out", "rank0.err", "rank1.out", "rank1.err"})
    EXPECT_NE(access(folder.File(name).c_str(), F_OK), 0) << name;
}

TEST(SupervisorTest, EndsStubbornFamiliesWithinTheGrace) {
  TemporaryFolder folder;
  Session session;
  ASSERT_TRUE(session.Start(FamilyScript(folder), 2).ok());
  ASSERT_TRUE(session.RunUntil([&] { return ReadPids(folder).size() == 2 * kFamily; }));
  const auto begin = steady_clock::now();
  session.supervisor->Shutdown(Duration::Milliseconds(200));
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(AllDead(ReadPids(folder)));
  EXPECT_EQ(session.exits[1], "killed by signal 9 (Killed)");
}

TEST(SupervisorTest, LetsPoliteRanksEndByThemselves) {
  Session session;
  ASSERT_TRUE(session
                  .Start("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep "
                         "0.01; done")
                  .ok());
  ASSERT_TRUE(session.RunUntil([&] { return !session.out[0].empty(); }));
  session.supervisor->Shutdown(Duration::Seconds(10));
  EXPECT_THAT(session.out[0], ElementsAre("up", "bye"));
  EXPECT_EQ(session.exits[0], "exit code 5");
}

TEST(SupervisorTest, EndsDaemonsThatARankLeavesBehind) {
  TemporaryFolder folder;
  Session session;
  ASSERT_TRUE(session
                  .Start("(setsid sh -c 'echo $$ > " + folder.File("pids") +
                         "; exec sleep 1000' >/dev/null 2>&1 &); while [ ! -s " +
                         folder.File("pids") + " ]; do sleep 0.01; done")
                  .ok());
  EXPECT_TRUE(session.RunToEnd());
  ASSERT_EQ(ReadPids(folder).size(), 1u);
  EXPECT_FALSE(AllDead(ReadPids(folder)));
  session.supervisor->Shutdown(Duration::Seconds(1));
  EXPECT_TRUE(AllDead(ReadPids(folder)));
}

TEST(SupervisorTest, EndsEverythingWhenTheKeeperIsKilled) {
  TemporaryFolder folder;
  Session session;
  ASSERT_TRUE(session.Start(FamilyScript(folder), 2).ok());
  ASSERT_TRUE(session.RunUntil([&] { return ReadPids(folder).size() == 2 * kFamily; }));
  const pid_t keeper = ParentOf(session.supervisor->Running()[0].second);
  ASSERT_NE(keeper, getpid());
  kill(keeper, SIGKILL);
  EXPECT_TRUE(session.RunUntil([&] { return !session.status.ok(); }));
  EXPECT_THAT(session.status.ToString(), HasSubstr("keeper"));
  EXPECT_TRUE(AllDead(ReadPids(folder)));
  EXPECT_EQ(session.exits[0], "killed by signal 9 (Killed)");
}

// A process like vrank, in which a Supervisor runs the family until it is killed.
pid_t ForkVrank(const TemporaryFolder& folder) {
  const pid_t vrank = fork();
  if (vrank != 0)
    return vrank;
  Session session;
  if (!session.Start(FamilyScript(folder), 2).ok())
    _exit(1);
  session.RunUntil([&] { return !session.interrupts.empty(); }, 60);
  session.supervisor->Shutdown(Duration::Milliseconds(100));
  _exit(session.interrupts == std::vector<int>{SIGINT} ? 42 : 1);
}

TEST(SupervisorTest, EndsEverythingWhenVrankIsKilled) {
  TemporaryFolder folder;
  const pid_t vrank = ForkVrank(folder);
  ASSERT_TRUE(Soon([&] { return ReadPids(folder).size() == 2 * kFamily; }));
  kill(vrank, SIGKILL);
  waitpid(vrank, nullptr, 0);
  EXPECT_TRUE(Soon([&] { return AllDead(ReadPids(folder)); }));
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid > 0 && ParentOf(pid) == parent)
      children.push_back(pid);
  }
  return children;
}

void KillChildren() {
  for (pid_t pid : ChildrenOf(getpid()))
    kill(pid, SIGKILL);
}

TEST(SupervisorTest, EndsTheRanksWhenVrankAndTheKeeperAreKilledAtOnce) {
  TemporaryFolder folder;
  // What is then left without a parent comes to this test, which cleans it up.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t vrank = ForkVrank(folder);
  ASSERT_TRUE(Soon([&] { return ReadPids(folder).size() == 2 * kFamily; }));
  std::vector<pid_t> ranks;
  pid_t keeper = 0;
  for (pid_t pid : ReadPids(folder)) {
    if (ParentOf(ParentOf(pid)) == vrank && ParentOf(pid) != vrank)
      keeper = ParentOf(pid);
  }
  ASSERT_NE(keeper, 0);
  for (pid_t pid : ReadPids(folder)) {
    if (ParentOf(pid) == keeper && getpgid(pid) == pid && getsid(pid) == getsid(0))
      ranks.push_back(pid);
  }
  ASSERT_EQ(ranks.size(), 2u);
  kill(vrank, SIGSTOP);  // so that neither sees the other go
  kill(keeper, SIGKILL);
  kill(vrank, SIGKILL);
  EXPECT_TRUE(Soon([&] { return AllDead(ranks); }));
  EXPECT_TRUE(Soon([&] {
    KillChildren();  // those of killed children become ours in turn
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return AllDead(ReadPids(folder)) && ChildrenOf(getpid()).empty();
  }));
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(SupervisorTest, HearsCtrlCInsteadOfTheRanks) {
  TemporaryFolder folder;
  const pid_t vrank = ForkVrank(folder);
  ASSERT_TRUE(Soon([&] { return ReadPids(folder).size() == 2 * kFamily; }));
  kill(vrank, SIGINT);
  int status = 0;
  waitpid(vrank, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_TRUE(AllDead(ReadPids(folder)));
}

// The loop is busy, or blocked, for ever.
TEST(SupervisorTest, EndsEverythingWhereTheLoopDoesNotAnswerASignal) {
  TemporaryFolder folder;
  const pid_t vrank = fork();
  if (vrank == 0) {
    Session session;
    if (!session.Start(FamilyScript(folder), 2).ok())
      _exit(1);
    for (;;)
      pause();
  }
  ASSERT_TRUE(Soon([&] { return ReadPids(folder).size() == 2 * kFamily; }));
  kill(vrank, SIGTERM);
  int status = 0;
  waitpid(vrank, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_TRUE(AllDead(ReadPids(folder)));
}

TEST(SupervisorTest, NamesAProgramThatCannotBeExecuted) {
  TemporaryFolder folder;
  Session session;
  LaunchOptions options;
  options.command = {"/no/such/program"};
  options.preload = {};
  EXPECT_THAT(session.supervisor->StartRanks(options, {{}}).ToString(),
              HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace vrank::emulator
