// All ranks of the job around one engine: real ones write programs and ask, virtual
// ones play programs. Knows rings and answers, but no processes: the session starts
// those, and tests use threads that write into a ring instead.
//
// One call of Advance moves everything that can move: records become ops, ops get
// times, times become answers. What it does not do is wait.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_WORLD_WORLD_H_
#define VRANK_EMULATOR_WORLD_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/channel.h"
#include "emulator/connect/guest_link.h"
#include "emulator/decode/work_pricer.h"
#include "emulator/host_time/gap_recorder.h"
#include "emulator/payload/hub.h"
#include "emulator/payload/transport.h"
#include "emulator/world/gpu_memory.h"
#include "emulator/world/real_rank.h"
#include "emulator/world/result_collector.h"
#include "emulator/world/shared_gpus.h"
#include "graph/replay/engine.h"
#include "graph/replay/membership.h"
#include "graph/replay/network_model.h"
#include "schedule/decide.h"

namespace vrank::emulator {

// How much slower a rank's work is: a straggler has numerator > denominator.
struct WorkFactor {
  int64_t numerator = 1;
  int64_t denominator = 1;
};

struct WorldOptions {
  graph::EngineOptions engine;  // but for what follows from the other options
  bool fold = true;             // see graph::EngineOptions
  HubOptions hub;
  // Carries payloads between the real ranks; nullptr: a PayloadHub.
  std::shared_ptr<PayloadTransport> payloads;
  ResultCollector::Options results;
  int32_t ranks_per_node = 0;  // 0: each is on a node of its own
  // Host time of real ranks that nobody assumed: by costs, or by their own real clocks.
  graph::Source host_time = graph::Source::kModelled;
  GapRecorder* gap_recorder = nullptr;  // where real ranks are recorded
  bool retain_programs = false;     // keep the real ranks' programs, to play them again
  bool keep_communicators = false;  // see World::communicators
  int32_t gpus_per_node = 0;
  // Records decoded per rank before others get their turn.
  uint64_t records_per_turn = 16384;
  // Of the engine, before somebody else gets to look (an interruption, the progress).
  uint64_t turns_at_once = 1 << 14;
  // Ops without a known time (graph::Engine::Unresolved), over which a rank's ring is
  // left alone as long as another rank can move.
  uint64_t throttle_ops = 1'000'000;
  std::map<int32_t, WorkFactor> work_factors;  // by world rank
  // By world rank: ranks of one class run one program. Empty: nobody follows anybody.
  std::vector<int32_t> classes;
};

class World : private graph::EngineObserver, private DecoderSink {
 public:
  // All pointers outlive the world.
  World(WorldOptions options, const graph::NetworkModel* network,
        graph::Membership* membership, WorkPricer* pricer,
        std::set<int32_t> real_ranks);
  ~World() override;

  // Every rank of the job is added once, before the first Advance.
  RealRank* AddReal(int32_t rank, GuestLink* link);
  // REQUIRES: the leader was added as real.
  void AddFollower(int32_t rank, int32_t leader);
  // `program` holds no times: it was written by another run. `leader`: the recorded
  // rank whose program it is, -1 for the rank's own.
  void AddRecorded(int32_t rank, graph::Program* program, int32_t leader = -1);
  void AddAbsent(int32_t rank);

  struct Moved {
    uint64_t records = 0;
    uint64_t host_records = 0;  // of them, those that say that time has passed
    uint64_t queries = 0;       // ... and those that ask whether work has ended
    uint64_t answers = 0;
    bool more = false;  // records, or work of the engine, that nobody looked at yet
    bool any() const { return records != 0 || answers != 0 || more; }
    // The real ranks have done nothing but sleep.
    bool only_time() const { return records != 0 && records == host_records; }
    // ... but ask.
    bool only_queries() const {
      return records != 0 && records == host_records + queries && answers <= queries;
    }
    Moved operator+(const Moved& next) const {
      return {records + next.records, host_records + next.host_records,
              queries + next.queries, answers + next.answers, more || next.more};
    }
  };
  // Errors are the job's or a guest's, and final.
  absl::StatusOr<Moved> Advance();

  // No record of this rank comes any more.
  void CloseRank(RealRank* rank);

  // world_loss.cc. The rank's process is gone, how is `how`, and the job goes on:
  // communicators that it is in are broken, as their other members are told.
  // REQUIRES: it is closed; nobody follows it. Between calls of Advance.
  absl::Status LoseRank(const RealRank& rank, const std::string& how);

  // Every real rank that still runs waits in the emulator, and nothing is unread.
  bool AllBlocked() const;
  // REQUIRES: AllBlocked(). Of the open questions "has it ended?" and "how much memory
  // do others hold?" the oldest one is answered, the first kind with "not yet"; false:
  // none is open. `not_before_ns`: as the engine's.
  bool DecideOldestQuery(int64_t not_before_ns = 0);
  // Likewise: a thread that waits lets the others of its process go on.
  bool LetOtherThreadsPass();
  // See the engine's. REQUIRES: nothing moves, and nothing will before that time.
  bool EndAborted(int64_t before_ns);
  // The question that it would answer.
  std::optional<schedule::OpenQuery> OldestQuery() const;
  bool Finished() const { return engine_->Finished(); }
  // Called before a real rank joins a communicator by its id.
  void BeforeJoins(std::function<void()> call) { before_join_ = std::move(call); }
  std::vector<std::string> DescribeBlocked(size_t limit) const;
  // Adds to the error of a job the virtual ranks whose data may have led to it, as far
  // as real ranks (`of`; nullopt: all) have read such in vain: run again with them
  // real, it may end otherwise.
  void AttachUnknownSenders(std::optional<int32_t> of, absl::Status* error) const;
  // Ranks that exchange data as the ranks do that they follow, ascending: which rank is
  // whose peer was concluded, not seen.
  const std::set<int32_t>& exchanging_followers() const {
    return exchanging_followers_;
  }

  const std::vector<std::unique_ptr<RealRank>>& real() const { return real_; }
  const graph::Engine& engine() const { return *engine_; }
  const ResultCollector& results() const { return results_; }
  // The memory of GPUs as it is by now, without that of ranks that have ended.
  GpuMemory MemoryOfGpus() const;
  const PayloadTransport& payloads() const { return *payloads_; }
  PayloadTransport* mutable_payloads() { return payloads_.get(); }

  // What a real rank was told of its communicators, by its own number.
  struct ServedCommunicator {
    std::string identity;
    std::vector<int32_t> members;
  };
  // By rank; empty without WorldOptions::keep_communicators.
  using ServedCommunicators = std::map<int32_t, std::map<uint32_t, ServedCommunicator>>;
  const ServedCommunicators& communicators() const { return communicators_; }
  // What creating communicators cost the host of a real rank, from the arrival of the
  // last member on. Those of one group count as if made one after the other.
  KernelTotal creations(int32_t rank) const {
    const auto found = creations_.find(rank);
    return found == creations_.end() ? KernelTotal() : found->second;
  }

  void CountLoss(int32_t rank, LossId loss) {
    ++losses_[rank][{static_cast<uint32_t>(loss), ""}];
  }
  // By row of losses.def and the name that it happened to.
  using Losses = std::map<std::pair<uint32_t, std::string>, uint64_t>;
  // Of one rank; nullopt: of all.
  Losses TotalLosses(std::optional<int32_t> rank = std::nullopt) const;
  // Where it happened first, by rank, of losses by which a program may take another
  // path (LossId::kUnknownSizes, kUnknownDecisions): before the op number `op`.
  struct FirstLoss {
    uint64_t op = 0;
    std::string name;
  };
  std::optional<FirstLoss> FirstOf(int32_t rank, LossId loss) const;

 private:
  // What estimates need of the communicators that real ranks have.
  struct Group {
    std::string identity;
    std::vector<int32_t> members;
    bool one_class = false;
  };
  struct Place {
    std::shared_ptr<const Group> group;
    uint32_t index = 0;
    uint64_t calls = 0;  // collectives
    // The root of gathers and scatters that its lone sends and receives were taken for.
    std::optional<uint32_t> root;
  };

  // Of one that `rank` calls `number`: its other members may be lost.
  void NoteBroken(int32_t rank, uint32_t number, const Place& place);

  // Of one send or receive, taken for a part of a gather or scatter: whether the ranks
  // that follow may take part in it, too. An error names the ranks that would tell.
  absl::Status CheckRoot(const protocol::Transfer& transfer, Place* place) const;

  RealRank* Find(int32_t rank);
  // world_memory.cc
  RealRank* WithOldestMemoryQuestion() const;
  bool IsMemoryKnown(const RealRank& asker) const;
  void AnswerMemory(RealRank* asker);
  void NoteEnds(GpuMemory* memory) const;
  // Answers those about a time that no other rank gets to any more.
  void AnswerKnownMemory();
  bool AreOneClass(std::span<const int32_t> members) const;
  // Its program is so far ahead of the others that it waits for them.
  bool IsAhead(const RealRank& rank) const;

  // graph::EngineObserver
  void OnHostAnswer(int32_t rank, uint64_t op, graph::Stamp host, graph::Stamp end,
                    uint64_t retired_launches, uint64_t value) override;
  void OnQueryAnswer(int32_t rank, uint64_t op, graph::Stamp host, bool complete,
                     graph::Stamp end, uint64_t retired_launches) override;
  void OnHostPassed(int32_t rank, uint64_t op) override;
  void OnHostFuncStart(int32_t rank, uint64_t op, graph::Stamp start) override;
  void OnHostFuncEnd(int32_t rank, uint64_t op, int64_t duration_ns) override;
  void OnTokenEnd(int32_t rank, uint32_t token, uint32_t generation,
                  graph::Stamp end) override;
  void OnMemory(int32_t rank, const graph::Op& op, int64_t host_ns) override;
  void OnRange(int32_t rank, uint32_t name, bool begin, graph::Stamp host) override;
  void OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                       uint32_t member, int32_t rank, const graph::CollectiveCall& call,
                       graph::Stamp arrival, graph::Stamp end) override;
  void OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                     uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                     graph::Stamp arrival, graph::Stamp end) override;
  void OnCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                      std::span<const int32_t> members, uint32_t index) override;

  // DecoderSink
  void OnQuestion(int32_t rank, uint64_t op, const Question& question) override;
  void OnInit(int32_t rank, uint64_t op, const protocol::CommInit& init) override;
  absl::Status OnPayload(int32_t rank, const protocol::Payload& payload,
                         std::span<const std::byte> bytes) override;
  absl::Status OnCollective(int32_t rank, uint32_t communicator,
                            const graph::CollectiveCall& call) override;
  absl::StatusOr<graph::RootedTransfers> OnTransfers(
      int32_t rank, uint32_t communicator,
      std::span<const protocol::Transfer> transfers) override;
  absl::StatusOr<Duration> OnEstimate(int32_t rank,
                                      const protocol::Estimate& estimate) override;
  void OnRelease(int32_t rank, uint32_t communicator) override;
  void OnLoss(int32_t rank, uint64_t op, uint32_t loss, const std::string& name,
              uint64_t amount) override;
  void OnHostGaps(int32_t rank, const protocol::HostGaps& batch,
                  std::span<const protocol::HostGap> gaps) override;
  void OnAllocatorPeak(int32_t rank, uint64_t op,
                       const protocol::AllocatorPeak& peak) override;
  void OnAllocatorBlocks(int32_t rank, uint64_t op,
                         std::span<const protocol::AllocatorBlock> blocks,
                         bool complete) override;
  void OnActivity(int32_t rank, protocol::ActivityWish wish, uint32_t slot) override;

  graph::RankOptions OptionsOf(int32_t rank) const;

  WorldOptions options_;
  const graph::NetworkModel* const network_;
  WorkPricer* const pricer_;
  const std::shared_ptr<PayloadTransport> payloads_;
  std::map<std::pair<int32_t, uint32_t>, Place> places_;  // by rank and its number
  std::map<std::string, std::weak_ptr<const Group>> groups_;
  SharedGpus shared_gpus_;
  ResultCollector results_;
  std::unique_ptr<graph::Engine> engine_;
  std::vector<std::unique_ptr<RealRank>> real_;
  std::vector<RealRank*> by_rank_;  // by world rank; nullptr: virtual
  std::set<int32_t> followers_, exchanging_followers_;
  std::function<void()> before_join_;
  std::map<int32_t, Losses> losses_;                                // by rank
  std::map<std::pair<int32_t, uint32_t>, FirstLoss> first_losses_;  // by rank and loss
  std::map<int32_t, std::string> lost_;  // ranks that are gone, and how
  absl::Status untold_;                  // of a loss that a rank could not be told
  ServedCommunicators communicators_;
  std::map<int32_t, KernelTotal> creations_;  // by real rank
  uint64_t answers_ = 0;                      // given so far
  GpuMemory gpu_memory_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_WORLD_H_
