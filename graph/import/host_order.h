// The order in which a rank issued what it did: the skeleton of its program.
//
// A program has one host thread, so the calls of all threads that issue work are put
// into one order, by time. That is exact where threads hand over, as PyTorch's main and
// autograd threads do; calls of one thread while another one waits are counted. Threads
// that issue nothing and wait for nothing (NCCL's watchdog asks events) are left out.
//
// A wait of the host is a point at its end, so that what other threads issue meanwhile
// comes before it.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_HOST_ORDER_H_
#define VRANK_GRAPH_IMPORT_HOST_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/import/import_losses.h"
#include "graph/import/recording.h"

namespace vrank::graph {

enum class PointKind : uint8_t {
  kHostWait,    // row: call; at its end
  kRangeEnd,    // row: activity
  kRangeBegin,  // row: activity
  kRecord,      // row: call, which records an event
  kStreamWait,  // row: call
  kWork,        // row: work, at its launch
};

struct Point {
  int64_t at_ns = 0;
  PointKind kind = PointKind::kWork;
  uint32_t row = 0;
  uint32_t thread = kNoRow;  // of the host; kNoRow: work without a launch
};

struct HostOrder {
  std::vector<Point> points;         // in program order
  std::vector<uint32_t> call_of;     // by work: its launch, or kNoRow
  std::vector<bool> helper_threads;  // by thread
  uint32_t main_thread = kNoRow;     // whose ranges are the program's
  Span window;                       // of everything recorded
  int64_t host_end_ns = 0;           // of the last call, or range of the main thread
  // From a launch to its work on an idle stream.
  int64_t shortest_latency_ns = 0, typical_latency_ns = 0;
};

// The names by which a profiler shows its steps begin with this.
inline constexpr char kProfilerStep[] = "ProfilerStep";

// What a call is, by its name: CUDA runtime, CUDA driver, HIP.
bool IsDeviceWait(const std::string& name);  // waits for all streams
bool IsStreamWait(const std::string& name);  // the host waits for a stream
bool IsEventWait(const std::string& name);   // the host waits for an event
bool IsFree(const std::string& name);        // waits for the device, undocumentedly

HostOrder OrderHost(const Recording& recording, ImportLosses* losses);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_HOST_ORDER_H_
