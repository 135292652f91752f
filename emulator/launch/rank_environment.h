// What a real rank is started with: its variables and its preloaded libraries.
//
// Thread rule: pure functions (they look at files and at this process's environment).

#ifndef VRANK_EMULATOR_LAUNCH_RANK_ENVIRONMENT_H_
#define VRANK_EMULATOR_LAUNCH_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace vrank::emulator {

struct LaunchOptions {
  std::vector<std::string> command;  // the program and its arguments
  std::string guest_folder;          // where libvrank_host.so and the stand-ins lie
  // Preloaded in this order: the host library first, libcuda before those that look for
  // it.
  std::vector<std::string> preload = {
      "libvrank_host.so",    "libcuda.so.1",      "libcudart.so.13",
      "libcublas.so.13",     "libcublasLt.so.13", "libnvidia-ml.so.1",
      "libnccl.so.2",        "libcupti.so.13",    "libcudnn.so.9",
      "libcufft.so.12",      "libcufile.so.0",    "libcurand.so.10",
      "libcusolver.so.12",   "libcusparse.so.12", "libcusparseLt.so.0",
      "libnvshmem_host.so.3"};
  std::vector<std::string> preload_tools;  // behind those
  // The ranks keep this machine's GPUs, and their own time: only libnccl is preloaded,
  // behind the host library.
  bool real_gpu = false;
  uint32_t real_gpus = 0;      // how many those are; 0: unknown
  uint32_t ranks_of_node = 0;  // of the emulated one; 0: unknown
  // CLOCK_MONOTONIC at virtual time 0, for ranks whose own time is real.
  int64_t real_time_origin_ns = 0;
  std::string socket_address;  // GuestServer::address()
  std::string master_address = "127.0.0.1";
  uint16_t master_port = 29500;
  // NCCL_COMM_ID, for programs that do not exchange ids; Python's do, by a store or by
  // MPI, and the variable would give all their communicators one id. Not the store's
  // address, which may differ from run to run: nobody connects there.
  std::string nccl_comm_id = "127.0.0.1:29500";
  std::string log_folder;  // rank<N>.out and rank<N>.err go here; empty: no logs
  // Same host addresses in every run (personality ADDR_NO_RANDOMIZE).
  bool fixed_addresses = true;
  // The name of a command that is run once and starts the ranks itself (mpirun, srun,
  // torchrun); empty: the command is the program. A launcher's processes say which rank
  // they are by its variables; one without is none.
  std::string launcher;
  // Set last; wins over everything else. Those of one rank win over those of all.
  std::vector<std::pair<std::string, std::string>> variables;
  std::map<uint32_t, std::vector<std::pair<std::string, std::string>>> rank_variables;
};

// One real rank's place in the job.
struct RankPlace {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;
  uint32_t local_world_size = 1;
};

// Whether all libraries to preload are there and can be named in LD_PRELOAD.
absl::Status CheckGuestFolder(const LaunchOptions& options);

// "NAME=value" strings: this process's own environment, changed for the rank.
std::vector<std::string> RankEnvironment(const LaunchOptions& options,
                                         const RankPlace& place);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_RANK_ENVIRONMENT_H_
