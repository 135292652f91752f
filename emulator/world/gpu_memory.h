// The memory of each GPU, over all ranks that use it.
//
// A rank's memory belongs to a GPU of its node, not to the rank: a process that puts a
// tensor on cuda:0 leaves less for the rank of GPU 0. Here the changes of all real
// ranks are kept by GPU and virtual time, so that what others hold at a time is a
// function of that time alone.
//
// Which GPU a rank that follows uses is derived from its leader's: the GPU of its own
// number where the leader uses that of its own, the same GPU where the leader strays to
// one that is another rank's. Of recorded and absent ranks nothing is known here.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_WORLD_GPU_MEMORY_H_
#define VRANK_EMULATOR_WORLD_GPU_MEMORY_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "graph/schema/op.h"

namespace vrank::emulator {

class GpuMemory {
 public:
  // `ranks_per_node` 0: each rank is on a node of its own.
  GpuMemory(int32_t ranks_per_node, int32_t gpus_per_node)
      : ranks_per_node_(ranks_per_node), gpus_per_node_(gpus_per_node) {}

  void AddReal(int32_t rank);
  // REQUIRES: the leader was added as real.
  void AddFollower(int32_t rank, int32_t leader);
  // One whose memory is not known here.
  void AddOther(int32_t rank) { others_[NodeOf(rank)].push_back(rank); }

  // Memory of a real rank changes (kMemory). Times of one rank do not decrease.
  void Change(int32_t rank, const graph::Op& op, int64_t ns);
  // The rank's process ended at that time, and with it what it held.
  void End(int32_t rank, int64_t ns);

  // Do both run on one node?
  bool AreNeighbours(int32_t rank, int32_t other) const;
  // A real rank that has a context on the GPU of that number of its node.
  bool Uses(int32_t rank, uint32_t device) const;

  // What the others hold of the GPU when real rank `rank` takes `bytes` of it. At equal
  // times the rank of the lower number comes first; ranks that follow `rank` take as
  // much at that time. REQUIRES: all changes up to then are known.
  uint64_t HeldByOthers(int32_t rank, uint32_t device, int64_t ns,
                        uint64_t bytes) const;

  using ByOwner = std::array<int64_t, 3>;  // by MemoryOwner
  struct Share {
    int32_t rank = 0;
    bool is_real = false;
    ByOwner bytes{};
    int64_t total() const { return bytes[0] + bytes[1] + bytes[2]; }
  };
  // The highest moment of a GPU that several ranks use.
  struct Peak {
    int32_t node = 0;
    uint32_t device = 0;
    int32_t nodes = 1;  // that are alike, `node` the first of them
    int64_t bytes = 0;
    int64_t ns = 0;
    std::vector<Share> shares;  // ascending rank
  };
  // By node and device. REQUIRES: the job is over.
  std::vector<Peak> SharedPeaks() const;

  // A real rank's highest use of a GPU that is another rank's by its number, where the
  // node has ranks that are not real: what those hold is derived, or not known.
  struct Stray {
    int32_t rank = 0;
    uint32_t device = 0;
    int64_t peak_bytes = 0;
  };
  std::vector<Stray> Strays() const;

 private:
  struct Event {
    int64_t ns = 0;
    int64_t delta = 0;
    int64_t held = 0;  // after it
    graph::MemoryOwner owner = graph::MemoryOwner::kProgram;
  };
  using History = std::vector<Event>;
  struct RealRank {
    std::map<uint32_t, History> devices;
    std::optional<int64_t> end_ns;
  };

  int32_t NodeOf(int32_t rank) const;
  uint32_t LocalOf(int32_t rank) const;
  // The real rank that `rank` is or follows; -1: none.
  int32_t LeaderOf(int32_t rank) const;
  // Real ranks of one node and different numbers have different GPUs first.
  bool AreGpusByRank() const;
  // Where `rank` has what its leader has on `device`.
  uint32_t DeviceOf(int32_t rank, int32_t leader, uint32_t device) const;
  // What `rank` has on `device`, by its leader's histories. Where it has what its
  // leader has on two GPUs, it has one context there: the earlier one.
  struct Held {
    uint32_t leaders_device = 0;
    const History* history = nullptr;
    bool has_context = true;
  };
  std::vector<Held> HeldOn(int32_t rank, int32_t leader, uint32_t device) const;
  // What was held just before the first event at or after that time; `inclusive`: just
  // after the last event at that time.
  static int64_t HeldAt(const RealRank& rank, const Held& held, int64_t ns,
                        bool inclusive);
  Peak PeakOf(int32_t node, uint32_t device) const;

  const int32_t ranks_per_node_, gpus_per_node_;
  std::map<int32_t, RealRank> real_;
  std::map<int32_t, std::vector<int32_t>> nodes_;  // ascending ranks that are known
  std::map<int32_t, std::vector<int32_t>> others_;
  std::map<int32_t, int32_t> leaders_;  // of those that follow
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_GPU_MEMORY_H_
