// Assembles the events of a trace file from the tokens of RapidJSON's reader.
//
// Follows where in the document the reader is, keeps the members that an import reads
// and skips the rest. Knows the shape of the file, not what an event means.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_IMPORT_KINETO_HANDLER_H_
#define VRANK_GRAPH_IMPORT_KINETO_HANDLER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/import/json_source.h"
#include "graph/import/recording.h"
#include "graph/import/trace_fields.h"

namespace vrank::graph {

// What a trace says beside its events.
struct TraceHeader {
  int64_t rank = -1, world_size = -1;
  int64_t base_ns = 0;  // added to every time
  std::vector<std::string> gpus;
  std::vector<ProcessGroup> groups;
  std::optional<VirtualTimes> virtual_times;
  bool has_events = false;  // there is a "traceEvents", or the file is a list
};

class KinetoHandler {
 public:
  using OnEvent = std::function<std::string(const TraceEvent& event)>;

  // `on_event` receives every event; a text that it returns is an error and the end.
  // `source` is notified of every value that was read; it may be null.
  KinetoHandler(JsonSource* source, OnEvent on_event)
      : source_(source), on_event_(std::move(on_event)) {}

  TraceHeader& header() { return header_; }
  uint64_t events() const { return events_; }
  // Members of the document itself so far.
  uint64_t root_members() const { return root_members_; }
  // The list that was closed last holds events.
  bool closed_events() const { return closed_events_; }
  const std::string& error() const { return error_; }

  // RapidJSON's handler.
  bool Null() { return Scalar({}, Kind::kNull); }
  bool Bool(bool value) { return Scalar(value ? "true" : "false", Kind::kBool); }
  bool RawNumber(const char* text, unsigned size, bool) {
    return Scalar({text, size}, Kind::kNumber);
  }
  bool String(const char* text, unsigned size, bool) {
    return Scalar({text, size}, Kind::kString);
  }
  bool Key(const char* text, unsigned size, bool);
  bool StartObject() { return Open(true); }
  bool EndObject(unsigned) { return Close(); }
  bool StartArray() { return Open(false); }
  bool EndArray(unsigned) {
    closed_events_ = places_.back() == Place::kEvents;
    return Close();
  }
  // Never told: numbers come as they are spelled.
  bool Int(int) { return true; }
  bool Uint(unsigned) { return true; }
  bool Int64(int64_t) { return true; }
  bool Uint64(uint64_t) { return true; }
  bool Double(double) { return true; }

 private:
  enum class Place : uint8_t {
    kSkipped,
    kRoot,
    kEvents,
    kEvent,
    kArgs,
    kDims,      // "Input Dims" and what it holds
    kTypes,     // "Input type"
    kConcrete,  // "Concrete Inputs"
    kDistributed,
    kGroups,
    kGroup,
    kGroupRanks,
    kDevices,
    kDevice,
    kVirtual,  // "vrank"
    kVirtualHost,
    kVirtualWork,
    kVirtualNames,  // of one source
  };
  // Of a value that holds no others.
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString };
  // Real traces are six deep.
  static constexpr size_t kDeepest = 64;

  Place Next(bool object) const;
  bool Open(bool object);
  bool Close();
  bool Scalar(std::string_view text, Kind kind);
  bool CheckEvents(const char* found);
  void HeaderScalar(std::string_view text, bool number);

  void ValueRead() {
    if (source_ != nullptr)
      source_->ValueRead();
  }

  JsonSource* const source_;
  const OnEvent on_event_;
  std::vector<Place> places_;
  std::string key_;             // of the header's objects
  Field field_ = Field::kNone;  // of an event or its args
  bool in_args_ = false;        // the key is "args"
  TraceEvent event_;
  bool dims_open_ = false, dims_done_ = false;
  int64_t dims_ = 1;
  // The last of "Concrete Inputs", the last one at the end.
  std::array<std::string, 3> concrete_;
  TraceHeader header_;
  uint64_t events_ = 0, root_members_ = 0;
  bool closed_events_ = false;
  std::string error_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_KINETO_HANDLER_H_
