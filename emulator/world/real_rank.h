// One real rank as the session sees it: its ring, its program, its open questions.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_REAL_RANK_H_
#define VRANK_EMULATOR_WORLD_REAL_RANK_H_

#include <cstdint>
#include <deque>
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

#include "emulator/connect/guest_link.h"
#include "emulator/decode/record_decoder.h"
#include "emulator/payload/transport.h"
#include "emulator/world/activity_publisher.h"
#include "emulator/world/allocator_log.h"
#include "emulator/world/gpu_activity.h"
#include "emulator/world/host_cpu.h"
#include "emulator/world/iteration_log.h"
#include "emulator/world/peak_blocks.h"
#include "emulator/world/thread_cpu_log.h"
#include "emulator/world/timeline_fan_out.h"
#include "graph/program/program.h"
#include "graph/replay/engine.h"
#include "graph/replay/stamp.h"

namespace vrank::emulator {

class RealRank {
 public:
  // All pointers outlive the rank. `host_time`: RecordDecoder's. `retain`: keep the
  // whole program, to play it again.
  RealRank(int32_t rank, GuestLink* link, WorkPricer* pricer, DecoderSink* sink,
           graph::Source host_time, bool retain);

  int32_t rank() const { return rank_; }
  GuestLink& link() { return *link_; }
  const GuestLink& link() const { return *link_; }
  graph::Program& program() { return *program_; }
  const graph::Program& program() const { return *program_; }
  std::unique_ptr<graph::Program> TakeProgram() { return std::move(program_); }
  const RecordDecoder& decoder() const { return *decoder_; }
  // emulator/launch/loaded_software.h, once the rank has issued work; empty before.
  const std::map<std::string, std::string>& software() const { return software_; }

  // Decodes at most `limit` records. Returns how many.
  absl::StatusOr<uint64_t> Drain(uint64_t limit);
  // The rank's processes are gone: no record comes any more.
  void Close();
  bool closed() const { return program_ == nullptr || program_->closed(); }

  // A question was decoded; its answer will be asked for by op.
  void AddQuestion(uint64_t op, const Question& question);
  // The question holds up the thread alone that asked it.
  void PassQuestion(uint64_t op);
  // The engine knows what the host waits for. Fetches are kept until AnswerFetches.
  void Answer(uint64_t op, const AnswerValues& values);
  // Where others are open, the answer is kept, so that those that are known at the same
  // time come together, however the machine schedules who waits for them.
  void TellAnswers();
  // Answers fetches whose bytes are there. Returns how many were answered.
  absl::StatusOr<uint64_t> AnswerFetches(PayloadTransport* payloads);
  // Questions about memory whose time is known, oldest first.
  struct MemoryQuestion {
    Question question;
    AnswerValues clock;
  };
  const std::deque<MemoryQuestion>& memory_questions() const {
    return memory_questions_;
  }
  // The first of them: `bytes` are held by others. REQUIRES: there is one.
  void AnswerMemory(uint64_t bytes);
  // Once the session has failed, `record` may ask for bytes of an earlier result: it is
  // answered by what has come. Returns how many of them have not, and read as zeros.
  uint64_t AnswerAfterFailure(const protocol::Record& record,
                              PayloadTransport* payloads);
  bool has_questions() const {
    return !questions_.empty() || !fetches_.empty() || !memory_questions_.empty() ||
           (publisher_ != nullptr && publisher_->has_questions());
  }
  // A fetch waits for bytes that another rank has not contributed.
  bool waits_for_bytes() const { return !fetches_.empty(); }
  // ... or at the last look an answer about one was on its way here.
  bool awaits_transport() const { return awaits_transport_; }

  // What is logged of it. REQUIRES: the engine has the rank; before it runs.
  void LogIterations(graph::Engine* engine,
                     std::function<bool(const std::string&)> matches);
  const IterationLog& iteration_log() const { return *iteration_log_; }
  const GpuActivity& gpu_activity() const { return *gpu_activity_; }

  const HostCpu& host_cpu() const { return host_cpu_; }
  const ThreadCpuLog& thread_cpu() const { return thread_cpu_; }
  // CPU time of its gaps alone, where they are recorded.
  const HostCpu& gap_time() const { return gap_time_; }
  void AddGaps(uint32_t thread, std::span<const protocol::HostGap> gaps);
  void AddAllocatorPeak(uint64_t op, const protocol::AllocatorPeak& peak) {
    allocator_log_.Add(op, peak.device, {peak.allocated_bytes, peak.reserved_bytes});
  }
  const AllocatorLog& allocator_log() const { return allocator_log_; }
  void AddAllocatorBlocks(std::span<const protocol::AllocatorBlock> blocks,
                          bool complete) {
    peak_blocks_.Add(*program_, blocks, complete);
  }
  const PeakBlocks& peak_blocks() const { return peak_blocks_; }

  // For a profiler in the rank. nullptr: it has not asked.
  ActivityPublisher* publisher() { return publisher_.get(); }
  // REQUIRES: no publisher yet; called while a record is being decoded.
  ActivityPublisher* StartPublisher(graph::Engine* engine);

  // Bytes handed to the program that stood in for those of virtual ranks.
  uint64_t mirrored_bytes() const { return mirrored_bytes_; }
  // Objects among them, in what the program gathers: each a copy of a real rank's.
  uint64_t copied_objects() const { return copied_objects_; }
  // Virtual ranks of which it read what no real rank sends: what it does since then may
  // hang on their data.
  const std::set<int32_t>& unknown_senders() const { return unknown_senders_; }
  // ... and those that were taken from a recorded run.
  uint64_t recorded_bytes() const { return recorded_bytes_; }

 private:
  struct OpenQuestion {
    uint64_t op;
    Question question;
    int64_t run_ns;  // ClockGovernor::run_ns
  };
  struct Fetch {
    Question question;
    AnswerValues clock;
  };

  void Keep(uint32_t slot, const AnswerValues& values);
  // What the program is told of bytes that are there, or never will be.
  void Tell(const PayloadTransport::Fetched& fetched, uint32_t slot,
            AnswerValues values);
  // questions_.end(): nobody asked.
  std::deque<OpenQuestion>::iterator FindQuestion(uint64_t op);

  const int32_t rank_;
  GuestLink* const link_;
  const int64_t kernel_gap_ns_;  // GpuDescription's
  std::unique_ptr<graph::Program> program_;
  std::unique_ptr<RecordDecoder> decoder_;
  std::unique_ptr<IterationLog> iteration_log_;
  std::unique_ptr<GpuActivity> gpu_activity_;
  std::unique_ptr<ActivityPublisher> publisher_;
  HostCpu host_cpu_;
  ThreadCpuLog thread_cpu_;
  HostCpu gap_time_;
  int64_t gaps_ns_ = 0;
  AllocatorLog allocator_log_;
  PeakBlocks peak_blocks_;
  TimelineFanOut timeline_;
  std::deque<OpenQuestion> questions_;          // ascending op
  std::deque<Fetch> fetches_;                   // their clock is known
  std::vector<GuestLink::SlotAnswer> answers_;  // not told yet
  bool awaits_transport_ = false;
  uint64_t mirrored_bytes_ = 0;
  uint64_t copied_objects_ = 0;
  std::set<int32_t> unknown_senders_;
  uint64_t recorded_bytes_ = 0;
  std::deque<MemoryQuestion> memory_questions_;
  std::map<std::string, std::string> software_;
  bool software_known_ = false;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_REAL_RANK_H_
