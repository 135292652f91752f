// Chapter "Environment Variables", those that change what a program observes.
//
// ncclResetDebugInit makes NCCL read the variables of logging again.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "env";

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* before = getenv(name);
    was_set_ = before != nullptr;
    before_ = was_set_ ? before : "";
    setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  ~Variable() {
    if (was_set_)
      setenv(name_, before_.c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  bool was_set_;
  std::string before_;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void ReadVariablesAgain() {
  ncclResetDebugInit();
}
#pragma GCC diagnostic pop

std::string LogPath(const char* end) {
  const char* board = getenv("NCCL_TESTS_BOARD");
  return std::string(board != nullptr ? board : "/tmp") + "/log" +
         std::to_string(TheWorld().rank) + end;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What is logged at `level` while `body` runs.
template <typename Body>
std::string Log(const char* level, const char* subsystems, Body body) {
  const std::string path = LogPath("");
  unlink(path.c_str());
  {
    const Variable debug("NCCL_DEBUG", level);
    const Variable file("NCCL_DEBUG_FILE", path.c_str());
    const Variable subsystem("NCCL_DEBUG_SUBSYS", subsystems);
    ReadVariablesAgain();
    body();
  }
  ReadVariablesAgain();
  return Contents(path);
}

void BadRoot() {
  Buffer buffer(4);
  EXPECT_CODE(ncclInvalidArgument,
              ncclBroadcast(buffer.at(), buffer.at(), 1, ncclInt, TheWorld().size,
                            TheWorld().comm, TheWorld().stream));
}

bool Matches(const std::string& text, const std::string& expression) {
  return std::regex_search(text, std::regex(expression));
}

bool Has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

void MakeOne() {
  EXPECT_THAT(Works(Duplicate().get()));
}

// A communicator of this rank alone.
void MakeAnother() {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  EXPECT_OK(ncclGetUniqueId(&id));
  EXPECT_OK(ncclCommInitRank(&comm, 1, id, 0));
  EXPECT_OK(ncclCommDestroy(comm));
}

constexpr Case kCases[] = {
    {"env.debug_warn", "ncclBroadcast", kPage,
     "NCCL_DEBUG: WARN prints an explicit message whenever a call errors",
     [] {
       const std::string log = Log("WARN", "INIT", BadRoot);
       EXPECT_THAT(Has(log, "NCCL WARN") && Has(log, "root"));
     }},
    {"env.debug_warn_names_call", "ncclGetLastError", "api/types",
     "ncclResult_t: should print a more detailed message at WARN",
     [] { EXPECT_THAT(Has(Log("WARN", "INIT", BadRoot), "Broadcast")); }},
    {"env.debug_error_message", "ncclBroadcast", "usage/communicators",
     "errors: if NCCL_DEBUG is WARN, a message explaining what happened",
     [] {
       const std::string log = Log("WARN", "INIT", BadRoot);
       EXPECT_THAT(Has(log, std::to_string(TheWorld().size).c_str()));
     }},
    {"env.debug_info", "ncclCommSplit", kPage,
     "NCCL_DEBUG: INFO prints debug information",
     [] { EXPECT_THAT(Has(Log("INFO", "INIT", MakeOne), "NCCL INFO")); }},
    {"env.debug_info_init", "ncclCommInitRank", "src/init.cc",
     "INFO: comm, rank, nranks, cudaDev, nvmlDev, busId, commId - Init START, COMPLETE",
     [] {
       const std::string log = Log("INFO", "INIT", MakeAnother);
       for (const char* end : {"START", "COMPLETE"})
         EXPECT_THAT(Matches(log, std::string("NCCL INFO ncclCommInitRank.* comm "
                                              "0x[0-9a-f]+ rank [0-9]+ nranks [0-9]+ "
                                              "cudaDev [0-9]+ nvmlDev [0-9]+ busId "
                                              "[1-9a-f][0-9a-f]* commId 0x[0-9a-f]+ - "
                                              "Init ") +
                                      end + "\n"));
     }},
    {"env.debug_info_split", "ncclCommSplit", "src/init.cc",
     "INFO: a child names its parent, splitCount, color and key at START and COMPLETE",
     [] {
       const std::string log = Log("INFO", "INIT", MakeOne);
       for (const char* end : {"- Init START", " - Init COMPLETE"})
         EXPECT_THAT(Matches(log, std::string("NCCL INFO ncclCommSplit comm .* busId "
                                              "[1-9a-f][0-9a-f]* parent 0x[0-9a-f]+ "
                                              "splitCount [0-9]+ color 0 key [0-9]+") +
                                      end + "\n"));
     }},
    {"env.debug_warn_line", "ncclBroadcast", "src/debug.cc",
     "WARN: host:pid:tid [device] file:line NCCL WARN",
     [] {
       EXPECT_THAT(Matches(Log("WARN", "INIT", BadRoot),
                           "[^ :]+:[0-9]+:[0-9]+ \\[[0-9]+\\] [a-z_/]+\\.cc:[0-9]+ "
                           "NCCL WARN "));
     }},
    {"env.debug_version", "ncclCommInitRank", kPage,
     "NCCL_DEBUG: VERSION prints the version at the start of the program",
     [] {
       // At the start: by now it has been printed, or not, and no more follows.
       const std::string log = Log("VERSION", "INIT", BadRoot);
       EXPECT_THAT(!Has(log, "NCCL WARN") && !Has(log, "NCCL INFO"));
     }},
    {"env.debug_file", "ncclBroadcast", kPage,
     "NCCL_DEBUG_FILE: directs the logging output to a file",
     [] {
       const std::string log = Log("WARN", "INIT", BadRoot);
       EXPECT_THAT(!log.empty());
     }},
    {"env.debug_file_name", "ncclBroadcast", kPage,
     "NCCL_DEBUG_FILE: %h is the hostname and %p the process PID",
     [] {
       const Variable debug("NCCL_DEBUG", "WARN");
       const Variable file("NCCL_DEBUG_FILE", LogPath(".%h.%p").c_str());
       ReadVariablesAgain();
       BadRoot();
       char host[256] = {};
       gethostname(host, sizeof host - 1);
       // NCCL leaves the domain out.
       if (char* dot = strchr(host, '.'); dot != nullptr)
         *dot = '\0';
       const std::string name =
           LogPath((std::string(".") + host + "." + std::to_string(getpid())).c_str());
       EXPECT_THAT(!Contents(name).empty());
     }},
    {"env.debug_file_overwrites", "ncclBroadcast", kPage,
     "NCCL_DEBUG_FILE: create and overwrite previous files of that name",
     [] {
       const std::string path = LogPath(".old");
       std::ofstream(path) << "what was there before\n";
       {
         const Variable debug("NCCL_DEBUG", "WARN");
         const Variable file("NCCL_DEBUG_FILE", path.c_str());
         ReadVariablesAgain();
         BadRoot();
       }
       ReadVariablesAgain();
       EXPECT_THAT(!Has(Contents(path), "before"));
     }},
    {"env.subsystems", "ncclAllReduce", kPage,
     "NCCL_DEBUG_SUBSYS: filter the INFO output based on subsystems",
     [] {
       const std::string log =
           Log("INFO", "COLL", [] { EXPECT_THAT(Works(TheWorld().comm)); });
       EXPECT_THAT(Has(log, "AllReduce"));
     },
     kTwoRanks},
    {"env.subsystems_list", "ncclAllReduce", kPage,
     "NCCL_DEBUG_SUBSYS: a comma separated list of the subsystems",
     [] {
       const std::string log = Log("INFO", "INIT,COLL", MakeOne);
       EXPECT_THAT(Has(log, "AllReduce") && Has(log, "Init"));
     },
     kTwoRanks},
    {"env.subsystems_not", "ncclCommSplit", kPage,
     "NCCL_DEBUG_SUBSYS: prefix with ^ disables that subsystem",
     [] { EXPECT_THAT(!Has(Log("INFO", "^INIT", MakeOne), "Init COMPLETE")); },
     kAnything},
    {"env.subsystems_default", "ncclCommSplit", kPage,
     "NCCL_DEBUG_SUBSYS: the default value is INIT,BOOTSTRAP,ENV",
     [] { EXPECT_THAT(Has(Log("INFO", "INIT,BOOTSTRAP,ENV", MakeOne), "Init")); }},
    {"env.blocking_overrides", "ncclCommInitRankConfig", kPage,
     "NCCL_COMM_BLOCKING: will override the blocking configuration",
     [] {
       const Variable blocking("NCCL_COMM_BLOCKING", "1");
       ncclConfig_t config = NonblockingConfig();
       Comm comm;
       const ncclUniqueId id = SharedId();
       EXPECT_CODE(ncclSuccess, ncclCommInitRankConfig(comm.out(), TheWorld().size, id,
                                                       TheWorld().rank, &config));
       EXPECT_THAT(Works(comm.get()));
     },
     kReadsAgain},
    {"env.blocking_values", "ncclCommInitRank", kPage,
     "NCCL_COMM_BLOCKING: 1 indicates blocking, and 0 nonblocking",
     [] {
       for (const char* value : {"0", "1"}) {
         const Variable blocking("NCCL_COMM_BLOCKING", value);
         EXPECT_THAT(Works(FromNewId().get()));
       }
     },
     kReadsAgain},
    {"env.blocking_controls", "ncclCommInitRank", kPage,
     "NCCL_COMM_BLOCKING: whether calls are allowed to block or not",
     [] {
       const Variable blocking("NCCL_COMM_BLOCKING", "0");
       const ncclUniqueId id = SharedId();
       Comm comm;
       const ncclResult_t result =
           ncclCommInitRank(comm.out(), TheWorld().size, id, TheWorld().rank);
       EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       EXPECT_OK(Settle(comm.get()));
     },
     kReadsAgain},
    {"env.max_ctas", "ncclCommInitRankConfig", kPage,
     "NCCL_MAX_CTAS: will override the maxCTAs configuration",
     [] {
       const Variable most("NCCL_MAX_CTAS", "8");
       EXPECT_THAT(Works(FromNewId().get()));
     }},
    {"env.min_ctas", "ncclCommInitRankConfig", kPage,
     "NCCL_MIN_CTAS: will override the minCTAs configuration",
     [] {
       const Variable least("NCCL_MIN_CTAS", "2");
       EXPECT_THAT(Works(FromNewId().get()));
     }},
    {"env.cga", "ncclCommInitRankConfig", kPage,
     "NCCL_CGA_CLUSTER_SIZE: will override the configuration",
     [] {
       const Variable cluster("NCCL_CGA_CLUSTER_SIZE", "2");
       EXPECT_THAT(Works(FromNewId().get()));
     }},
    {"env.policy", "ncclCommInitRankConfig", kPage,
     "NCCL_CTA_POLICY: set the policy for the communicator",
     [] {
       const Variable policy("NCCL_CTA_POLICY", "1");
       EXPECT_THAT(Works(FromNewId().get()));
     }},
    {"env.null_of_no_elements", "ncclAllReduce", kPage,
     "NCCL_CHECK_POINTERS: the default is 0",
     [] {
       EXPECT_OK(ncclAllReduce(nullptr, nullptr, 0, ncclInt, ncclSum, TheWorld().comm,
                               TheWorld().stream));
     }},
};

}  // namespace

std::span<const Case> EnvironmentCases() {
  return kCases;
}

}  // namespace conformance
