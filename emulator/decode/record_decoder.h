// Turns the records of one rank into ops of its program.
//
// This is the only place that reads guest records. What becomes an op goes to the
// program; what an op does not carry (answer slots, payloads, losses) goes to a sink. A
// guest may be broken: every number that a record holds is checked here before anybody
// uses it, and a record that makes no sense is an error that names rank and place,
// never a crash.
//
// Host time. Every record says how much host time passed before it, and whether anyone
// vouches for it. Records that become no op hand theirs to the next one; where the two
// are not of one kind, an op that is nothing but host time comes in between.
//
// Helper threads (watchdogs, loggers) ask beside the rank: their ops carry no host
// time, and what they ask without wanting an answer becomes no op.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_DECODE_RECORD_DECODER_H_
#define VRANK_EMULATOR_DECODE_RECORD_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/protocol.h"
#include "base/guest/units.h"
#include "emulator/decode/host_activity.h"
#include "emulator/decode/work_pricer.h"
#include "graph/models/clock_governor.h"
#include "graph/program/program.h"
#include "graph/program/rooted_transfers.h"
#include "graph/schema/op.h"

namespace vrank::emulator {

// Somebody waits in an answer slot for an op.
struct Question {
  uint32_t slot = protocol::kNoSlot;
  // A fetch of payload bytes; its op is a reading of the host clock.
  bool is_fetch = false;
  // How much memory others hold (protocol::AskMemory); likewise.
  bool is_memory = false;
  uint32_t device = 0;
  bool begins_sharing = false;
  protocol::PayloadKey key{};
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool if_ready = false;
  uint64_t value = 0;   // to be told where the op itself has none
  bool beside = false;  // holds up the thread alone that asked
};

class DecoderSink {
 public:
  virtual ~DecoderSink() = default;
  // `op`: index in the rank's program.
  virtual void OnQuestion(int32_t rank, uint64_t op, const Question& question) = 0;
  // Before the question that it is.
  virtual void OnInit(int32_t, uint64_t /*op*/, const protocol::CommInit&) {}
  virtual absl::Status OnPayload(int32_t rank, const protocol::Payload& payload,
                                 std::span<const std::byte> bytes) = 0;
  virtual absl::Status OnCollective(int32_t rank, uint32_t communicator,
                                    const graph::CollectiveCall& call) = 0;
  // Where they are a gather or a scatter: what ranks that follow this one do.
  virtual absl::StatusOr<graph::RootedTransfers> OnTransfers(
      int32_t rank, uint32_t communicator,
      std::span<const protocol::Transfer> transfers) = 0;
  // What the network model says about a call.
  virtual absl::StatusOr<Duration> OnEstimate(int32_t, const protocol::Estimate&) {
    return absl::UnimplementedError("nobody here knows a network");
  }
  virtual void OnRelease(int32_t rank, uint32_t communicator) = 0;
  // `loss`: row of base/guest/losses.def. Before the op number `op`.
  virtual void OnLoss(int32_t rank, uint64_t op, uint32_t loss, const std::string& name,
                      uint64_t amount) = 0;
  // What the rank's program computed between its calls.
  virtual void OnHostGaps(int32_t, const protocol::HostGaps&,
                          std::span<const protocol::HostGap>) {}
  // The most that PyTorch's allocator has held before the op number `op`.
  virtual void OnAllocatorPeak(int32_t, uint64_t /*op*/,
                               const protocol::AllocatorPeak&) {}
  // What it has given to tensors and taken back before the op number `op`. `complete`:
  // since the call before, or the rank's start.
  virtual void OnAllocatorBlocks(int32_t, uint64_t /*op*/,
                                 std::span<const protocol::AllocatorBlock>,
                                 bool /*complete*/) {}
  // A profiler in the guest wants something from this record on; it is not counted yet.
  virtual void OnActivity(int32_t, protocol::ActivityWish, uint32_t) {}
  // A host function has returned; its op took that long.
  virtual void OnHostFuncEnd(int32_t, uint64_t /*op*/, int64_t /*duration_ns*/) {}
};

// Told of every record once it has been decoded.
class RecordObserver {
 public:
  struct Decoded {
    uint64_t ops = 0;             // that the program has now
    int64_t pending_host_ns = 0;  // host time that no op carries
    // Who vouches for the record's host time, and for what its last op's work takes.
    graph::Source host_source = graph::Source::kModelled;
    graph::Source work_source = graph::Source::kModelled;
  };
  virtual void OnRecord(const protocol::Record& record, const Decoded& decoded) = 0;

 protected:
  ~RecordObserver() = default;
};

// What one rank's work was priced at.
struct KernelTotal {
  uint64_t count = 0;
  int64_t time_ns = 0;
  int64_t unseen_ns = 0;  // graph::WorkCost::unseen_ns
};
struct WorkTotals {
  uint64_t flops = 0;
  uint64_t bytes = 0;  // of device memory traffic
  // By name of kernel or API function, and by source.
  std::map<std::pair<std::string, graph::Source>, KernelTotal> kernels;
  // Host time by what it was spent on (host_activity.h), waits not included.
  std::map<std::string, KernelTotal> host;
};

class RecordDecoder {
 public:
  // The program, the pricer and the sink outlive the decoder. `host_time`: where the
  // host time comes from that is not marked as assumed.
  RecordDecoder(int32_t rank, graph::Program* program, WorkPricer* pricer,
                DecoderSink* sink, graph::Source host_time = graph::Source::kModelled);

  // `record` and the record.size bytes from there on are readable.
  absl::Status Decode(const protocol::Record& record);
  // nullptr: nobody. Takes effect with the record that is being decoded.
  void Observe(RecordObserver* observer) { observer_ = observer; }
  // No more records come: host time that no op carries yet becomes one, and host
  // functions that have not returned never do.
  void Finish();

  uint64_t records() const { return records_; }
  // Of them, those that say what time has passed, and no more.
  uint64_t host_records() const { return host_records_; }
  // ... that ask whether work has ended.
  uint64_t queries() const { return queries_; }
  bool has_work() const { return has_work_; }
  // Of the rank's GPU; nullptr: its work takes what it was priced at.
  graph::ClockGovernor* governor() { return governor_ ? &*governor_ : nullptr; }
  const graph::ClockGovernor* governor() const {
    return governor_ ? &*governor_ : nullptr;
  }
  WorkTotals Totals() const;

  // An allocation has failed, and none has succeeded since: a program that allocates
  // less, or frees its cache and retries, has recovered.
  bool is_short_of_memory() const { return short_of_memory_; }

 private:
  struct KernelRow {
    KernelTotal totals[4];  // by graph::Source
  };
  // The body of a CUDA graph, as its first launch showed it.
  struct GraphBody {
    uint32_t lane = 0;  // of that launch
    std::vector<graph::Op> ops;
    // At the highest clock, for each op that is work.
    std::vector<graph::WorkCost> costs;
  };

  absl::Status DecodeKind(const protocol::Record& record);
  absl::Status DecodeHost(const protocol::Record& record);
  absl::Status DecodeWork(const protocol::Record& record);
  absl::Status DecodeNccl(const protocol::Record& record);
  absl::Status DecodeGraph(const protocol::Record& record);

  absl::Status DefineName(const protocol::Record& record);
  absl::Status Loss(const protocol::Record& record);
  absl::Status Memory(const protocol::Record& record);
  absl::Status AskMemory(const protocol::Record& record);
  absl::Status Token(const protocol::Record& record);
  absl::Status HostWait(const protocol::Record& record);
  absl::Status HostQuery(const protocol::Record& record);
  absl::Status Kernel(const protocol::Record& record);
  absl::Status Gemm(const protocol::Record& record);
  absl::Status HostFunc(const protocol::Record& record);
  absl::Status HostFuncEnd(const protocol::Record& record);
  absl::Status CommInit(const protocol::Record& record);
  absl::Status CommSplit(const protocol::Record& record);
  absl::Status CommRelease(const protocol::Record& record);
  absl::Status Collective(const protocol::Record& record);
  absl::Status PointToPoint(const protocol::Record& record);
  absl::Status Payload(const protocol::Record& record);
  absl::Status FetchPayload(const protocol::Record& record);
  absl::Status Estimate(const protocol::Record& record);
  absl::Status Activity(const protocol::Record& record);
  absl::Status HostGaps(const protocol::Record& record);
  absl::Status AllocatorBlocks(const protocol::Record& record);
  absl::Status GraphLaunch(const protocol::Record& record);
  // Appends the body once more, for a launch on `lane`.
  absl::Status Repeat(const GraphBody& body, uint32_t lane);
  void AppendGraphLaunch(uint32_t lane);

  absl::StatusOr<uint32_t> Name(uint32_t guest_name) const;
  absl::StatusOr<uint32_t> KernelId(uint32_t name);

  void AddHostTime(const protocol::Record& record);
  // Appends the op, with the host time that is due. Returns its index.
  uint64_t Append(graph::Op op);
  // Appends the question, or nothing where a helper wants no answer.
  void AppendQuestion(const protocol::Record& record, graph::Op op, uint32_t slot);
  void Ask(uint64_t op, uint32_t slot);
  void AppendWork(graph::WorkClass work, uint32_t lane, uint32_t name,
                  graph::WorkCost priced);
  // What the work takes at the clock that the GPU has now.
  graph::WorkCost AtPresentClock(graph::WorkCost priced);
  void CountWork(uint32_t name, const graph::WorkCost& priced);

  const int32_t rank_;
  const graph::Source host_time_;
  graph::Program* const program_;
  WorkPricer* const pricer_;
  std::optional<graph::ClockGovernor> governor_;
  DecoderSink* const sink_;
  const uint32_t copy_name_, memset_name_;

  RecordObserver* observer_ = nullptr;
  uint64_t records_ = 0;
  uint64_t host_records_ = 0;
  uint64_t bytes_ = 0;
  int64_t pending_host_ns_ = 0;  // all of pending_source_
  graph::Source pending_source_ = graph::Source::kModelled;
  bool has_work_ = false;
  graph::Source latest_source_ = graph::Source::kModelled;  // of the last op
  std::unordered_map<uint32_t, uint32_t> names_;    // guest's number -> program's
  std::unordered_map<uint32_t, GraphBody> graphs_;  // by the guest's number
  GraphBody* learning_ = nullptr;                   // its launch is being decoded
  bool in_graph_ = false;                           // the record at hand is of a graph
  uint64_t flops_ = 0;
  uint64_t moved_bytes_ = 0;
  std::vector<uint32_t> kernel_ids_;  // the pricer's, by the program's name
  std::vector<KernelRow> kernels_;    // by the program's name
  KernelTotal host_[kHostActivities];
  uint64_t queries_ = 0;
  bool short_of_memory_ = false;
  // Host functions that have not returned, by number: op, and own cost.
  uint64_t host_functions_ = 0;
  std::map<uint64_t, std::pair<uint64_t, int64_t>> host_functions_open_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_DECODE_RECORD_DECODER_H_
