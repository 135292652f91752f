// The rows of a recording, from the events of a Kineto trace.
//
// Knows what an event means: its categories, its arguments, how it spells times. Rows
// of several parts of a trace are appended in the order of the file, with the result of
// a single pass.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_IMPORT_KINETO_ROWS_H_
#define VRANK_GRAPH_IMPORT_KINETO_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/import/recording.h"
#include "graph/import/trace_fields.h"

namespace vrank::graph {

class KinetoRows {
 public:
  // Returns an error, empty where there is none.
  std::string Add(const TraceEvent& event);

  // Appends the rows of the next part. False where a single pass might have refused
  // them or counted otherwise; both are of no use then.
  [[nodiscard]] bool Append(KinetoRows* part);

  // The rows, in the order of the file. Groups that only the inputs of
  // record_param_comms state (PyTorch 2.1 and newer, with shapes) are joined with the
  // calls inside of it.
  Recording Finish() &&;

 private:
  struct Params {
    Span time;
    uint32_t thread = 0;
    int64_t start = -1, stride = -1, size = -1;
  };
  static constexpr size_t kMostCategories = 64;
  static constexpr size_t kMostLanes = 4096;

  static uint32_t Place(const std::pair<int64_t, int64_t>& id,
                        std::vector<std::pair<int64_t, int64_t>>* rows);
  uint32_t Thread(const TraceEvent& event);
  void AddCall(const TraceEvent& event, const Span& time);
  void AddWork(const TraceEvent& event, const Span& time, WorkClass work_class);
  void AddActivity(const TraceEvent& event, const Span& time, bool is_range);
  void AddSync(const TraceEvent& event);
  void AddMemory(const TraceEvent& event);
  void JoinParams();

  Recording out_;
  std::vector<Params> params_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_KINETO_ROWS_H_
