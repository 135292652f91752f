// A virtual GPU whose calls are both decoded into a program, as the emulator does it,
// and rendered as a trace, as a profiler shows them. A builder that is right makes the
// same program of the trace.
//
// The GPU is the one of the guests (virtual_gpu/core) and the decoder the emulator's
// own; only time is simulated here, for one rank, in the simplest way.

#ifndef VRANK_TESTS_GRAPH_BUILD_TRACED_GPU_H_
#define VRANK_TESTS_GRAPH_BUILD_TRACED_GPU_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/decode/record_decoder.h"
#include "graph/trace/rank_trace.h"
#include "tests/virtual_gpu/core/fake_channel.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::graph {

class TracedGpu {
 public:
  struct Options {
    uint32_t launch_queue_depth = 1024;
    bool sync_rows_of_copies = true;  // blocking copies have a row for their wait
  };
  explicit TracedGpu(Options options);
  ~TracedGpu();

  // --- What the program does -------------------------------------------------------
  void* NewStream(bool blocking);
  void DestroyStream(void* stream);
  void* NewEvent();
  void DestroyEvent(void* event);
  void Launch(void* stream, uint32_t grid);
  void Gemm(void* stream, uint64_t m);
  void RecordEvent(void* event, void* stream);
  void WaitEvent(void* stream, void* event);
  void SynchronizeEvent(void* event);
  void SynchronizeStream(void* stream);
  void SynchronizeDevice();
  bool QueryEvent(void* event);  // true: complete
  bool QueryStream(void* stream);
  void* Allocate(uint64_t bytes);
  void Free(void* address);
  void* AllocateAsync(uint64_t bytes, void* stream);
  void FreeAsync(void* address, void* stream);
  void* AllocateHost(uint64_t bytes);
  void Copy(void* to, const void* from, uint64_t bytes, uint32_t cupti_kind,
            bool asynchronous, void* stream);
  void Fill(void* to, uint64_t bytes, void* stream);
  void Range(const std::string& name, bool begin);
  void Sleep(int64_t ns);
  uint32_t InitCommunicator(uint32_t ranks, uint32_t rank);
  uint32_t SplitCommunicator(uint32_t parent, int32_t color);
  void ReleaseCommunicator(uint32_t communicator);
  void Collective(uint32_t communicator, uint64_t count, void* stream);
  void Transfers(uint32_t communicator, std::vector<Transfer> transfers, void* stream);

  // --- What came of it -------------------------------------------------------------
  // Ends both.
  void Finish();
  const Program& program() const { return program_; }
  const RankTrace& trace() const { return trace_; }

 private:
  class Pricer;
  class Sink;
  struct CallScope;
  friend struct CallScope;

  uint32_t Name(const std::string& text);
  uint32_t StreamNumber(void* stream);
  uint32_t Lane(void* stream);
  // Decodes what was written and lets its time pass.
  void Consume();
  void Simulate(uint64_t op_index);
  int64_t EndOf(const Op& op) const;
  Answer OnAsk(const FakeChannel::Written& question);
  void RaiseHost(int64_t to);
  void AddSync(SyncKind kind, void* stream, void* event);
  TracedWork& AddWork(WorkClass work, const std::string& name, void* stream);
  void AddReserves(bool skip_account, int64_t account);
  void Work(const char* function, bool is_driver, void* stream, WorkClass work,
            const std::string& name, const std::function<void()>& run);
  bool QueryResult(gpu::Error error, SyncKind kind, void* stream, void* event);

  Options options_;
  FakeChannel channel_;
  std::unique_ptr<gpu::ProcessGpu> gpu_;
  Program program_{true};
  std::unique_ptr<Pricer> pricer_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<emulator::RecordDecoder> decoder_;
  RankTrace trace_;

  size_t consumed_ = 0;
  // Waits of the host that the fake channel takes for costs of the record that follows,
  // by its number.
  std::map<size_t, int64_t> waited_ns_;
  std::map<void*, uint32_t> stream_numbers_;
  uint32_t last_stream_ = 100;
  std::map<uint32_t, int64_t> lane_ends_, token_ends_;
  std::deque<int64_t> launches_;  // ends of those that occupy the queue
  TracedCall call_;               // being made
  int64_t wait_start_ns_ = -1;    // of the call being made
  int64_t queue_start_ns_ = -1, queue_end_ns_ = -1;
  uint64_t call_first_op_ = 0;
  uint32_t correlation_ = 0;
  uint64_t last_sync_id_ = 0;
  struct EventState {
    uint32_t number;
    uint64_t sync_id = 0;
  };
  std::map<void*, EventState> events_;
  uint32_t event_numbers_ = 0;
  std::map<std::string, uint32_t> names_;
  std::map<void*, uint64_t> allocations_;  // bytes; 0: from a pool
  uint32_t communicators_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_BUILD_TRACED_GPU_H_
