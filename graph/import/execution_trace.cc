#include "graph/import/execution_trace.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/import/json_reading.h"

namespace vrank::graph {
namespace {

constexpr char kParams[] = "record_param_comms";

std::optional<int64_t> Integer(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    return std::nullopt;
  return value;
}

// What RapidJSON tells, put together to the nodes of collectives. The values of a
// node's "inputs" (a list, or "values" in an object since schema 1.1) are, for a
// collective: its tensor or a list of them, a sequence number, the group's address, a
// rank, the operation's name.
class NodeHandler {
 public:
  NodeHandler(JsonSource* source, ExecutionTrace* out) : source_(source), out_(out) {}
  const std::string& error() const { return error_; }
  bool has_nodes() const { return has_nodes_; }

  bool Null() { return Scalar({}, false); }
  bool Bool(bool) { return Scalar({}, false); }
  bool RawNumber(const char* text, unsigned size, bool) {
    return Scalar({text, size}, true);
  }
  bool String(const char* text, unsigned size, bool) {
    return Scalar({text, size}, false);
  }
  bool Key(const char* text, unsigned size, bool) {
    source_->ValueRead();
    if (places_.back() == Place::kRoot || places_.back() == Place::kNode ||
        places_.back() == Place::kInputs)
      key_.assign(text, size);
    return true;
  }
  bool StartObject() { return Open(true); }
  bool EndObject(unsigned) { return Close(); }
  bool StartArray() { return Open(false); }
  bool EndArray(unsigned) { return Close(); }
  bool Int(int) { return true; }
  bool Uint(unsigned) { return true; }
  bool Int64(int64_t) { return true; }
  bool Uint64(uint64_t) { return true; }
  bool Double(double) { return true; }

 private:
  enum class Place : uint8_t {
    kSkipped,
    kRoot,
    kNodes,
    kNode,
    kInputs,
    kValues,
    kInner
  };
  static constexpr size_t kDeepest = 64;
  static constexpr size_t kTensorNumbers = 5;  // id, storage, offset, elements, bytes

  Place Next(bool object) const {
    if (places_.empty())
      return object ? Place::kRoot : Place::kSkipped;
    switch (places_.back()) {
      case Place::kRoot:
        return key_ == "nodes" && !object ? Place::kNodes : Place::kSkipped;
      case Place::kNodes:
        return object ? Place::kNode : Place::kSkipped;
      case Place::kNode:
        if (key_ != "inputs")
          return Place::kSkipped;
        return object ? Place::kInputs : Place::kValues;
      case Place::kInputs:
        return key_ == "values" && !object ? Place::kValues : Place::kSkipped;
      case Place::kValues:
      case Place::kInner:
        return object ? Place::kSkipped : Place::kInner;
      default:
        return Place::kSkipped;
    }
  }

  bool Open(bool object) {
    source_->ValueRead();
    if (places_.size() == kDeepest) {
      error_ = fmt::format("values are nested more than {} deep", kDeepest);
      return false;
    }
    const Place place = Next(object);
    if (place == Place::kNodes)
      has_nodes_ = true;
    if (place == Place::kNode) {
      name_.clear();
      row_ = {};
      tensor_.clear();
      numbers_.clear();
      tensor_done_ = false;
    }
    places_.push_back(place);
    return true;
  }

  bool Close() {
    source_->ValueRead();
    const Place place = places_.back();
    places_.pop_back();
    if (place == Place::kInner && !tensor_.empty())
      tensor_done_ = true;
    if (place == Place::kNode)
      AddNode();
    return true;
  }

  void AddNode() {
    if (name_ != kParams || row_.operation.empty() || row_.operation == "wait" ||
        row_.operation == "init")
      return;
    if (tensor_.size() == kTensorNumbers) {
      row_.elements = tensor_[3];
      row_.element_bytes = tensor_[4];
    }
    if (numbers_.size() >= 2)
      row_.group = numbers_[1];
    out_->communications.push_back(row_);
  }

  bool Scalar(std::string_view text, bool number) {
    source_->ValueRead();
    if (places_.empty()) {
      error_ = "the file is a single value";
      return false;
    }
    const std::optional<int64_t> integer =
        number ? Integer(text) : std::optional<int64_t>();
    switch (places_.back()) {
      case Place::kRoot:
        if (key_ == "pid")
          out_->pid = integer.value_or(-1);
        break;
      case Place::kNode:
        if (key_ == "name" && !number)
          name_.assign(text);
        else if ((key_ == "id" && row_.id == 0) || key_ == "rf_id")
          row_.id = integer.value_or(0);
        break;
      case Place::kValues:
        if (integer && numbers_.size() < 2)
          numbers_.push_back(*integer);
        else if (!number && row_.operation.empty())
          row_.operation.assign(text);
        break;
      case Place::kInner:
        if (integer && !tensor_done_ && tensor_.size() < kTensorNumbers)
          tensor_.push_back(*integer);
        break;
      default:
        break;
    }
    return true;
  }

  JsonSource* const source_;
  ExecutionTrace* const out_;
  std::vector<Place> places_;
  std::string key_, name_, error_;
  bool has_nodes_ = false;
  TracedCommunication row_;
  std::vector<int64_t> tensor_, numbers_;
  bool tensor_done_ = false;
};

// Those that a trace can say more about, by time: calls of the host, of nested ones the
// outer.
std::vector<CommunicationRow*> HostCommunications(Recording* recording) {
  std::vector<CommunicationRow*> rows;
  for (CommunicationRow& row : recording->communications)
    if (row.thread != kNoRow && !row.IsWait())
      rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return a->time.begin_ns < b->time.begin_ns;
  });
  std::vector<CommunicationRow*> outer;
  for (CommunicationRow* row : rows) {
    const bool nested = !outer.empty() && outer.back()->thread == row->thread &&
                        row->time.end_ns <= outer.back()->time.end_ns;
    if (!nested)
      outer.push_back(row);
  }
  return outer;
}

const char* TypeOfBytes(int64_t bytes) {
  switch (bytes) {
    case 2:
      return "Half";
    case 4:
      return "Float";
    case 8:
      return "Long";
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<ExecutionTrace> ReadExecutionTrace(const std::string& path) {
  const std::string subject = fmt::format("execution trace '{}'", path);
  auto source = JsonSource::Open(path);
  if (!source.ok())
    return absl::NotFoundError(
        fmt::format("{}: {}", subject, std::string(source.status().message())));
  ExecutionTrace trace;
  trace.file = path;
  NodeHandler handler(&*source, &trace);
  RETURN_IF_ERROR(ReadJson(subject, &*source, &handler));
  if (!handler.has_nodes())
    return absl::InvalidArgumentError(
        fmt::format("{}: there is no list \"nodes\"; give a file that "
                    "torch.profiler.ExecutionTraceObserver wrote",
                    subject));
  std::stable_sort(trace.communications.begin(), trace.communications.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  return trace;
}

absl::Status JoinExecutionTrace(const ExecutionTrace& trace, Recording* recording) {
  const std::vector<CommunicationRow*> rows = HostCommunications(recording);
  const auto different = [&](const std::string& how) {
    return absl::InvalidArgumentError(fmt::format(
        "execution trace '{}' and recording '{}' do not show the same collectives: {}; "
        "give the two of one step",
        trace.file, recording->file, how));
  };
  if (rows.size() != trace.communications.size())
    return different(
        fmt::format("{} and {}", trace.communications.size(), rows.size()));
  std::vector<int64_t> groups;  // in order of their first use, which all ranks share
  for (size_t i = 0; i < rows.size(); ++i) {
    const TracedCommunication& traced = trace.communications[i];
    CommunicationRow& row = *rows[i];
    if (row.in_elements >= 0 && traced.elements >= 0 &&
        row.in_elements != traced.elements)
      return different(fmt::format("number {} is of {} elements and of {}", i,
                                   traced.elements, row.in_elements));
    row.operation = traced.operation;
    if (row.in_elements < 0)
      row.in_elements = traced.elements;
    if (row.type.empty())
      row.type = TypeOfBytes(traced.element_bytes);
    if (!row.group.empty())
      continue;
    const auto group = std::find(groups.begin(), groups.end(), traced.group);
    row.group = fmt::format("{}", group - groups.begin());
    if (group == groups.end())
      groups.push_back(traced.group);
  }
  return absl::OkStatus();
}

}  // namespace vrank::graph
