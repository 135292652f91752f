#include "graph/import/kineto_handler.h"

#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace vrank::graph {
namespace {

int64_t IntegerOr(std::string_view text, int64_t other) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? value
                                                                             : other;
}

// Another name is one that this version does not know.
Source SourceNamed(std::string_view name) {
  return name == "modelled"   ? Source::kModelled
         : name == "recorded" ? Source::kRecorded
         : name == "measured" ? Source::kMeasured
                              : Source::kAssumed;
}

constexpr const char* kKinds[] = {"null", "a truth value", "a number", "a string"};

}  // namespace

KinetoHandler::Place KinetoHandler::Next(bool object) const {
  if (places_.empty())
    return object ? Place::kRoot : Place::kEvents;
  switch (places_.back()) {
    case Place::kRoot:
      if (key_ == "traceEvents" && !object)
        return Place::kEvents;
      if (key_ == "distributedInfo" && object)
        return Place::kDistributed;
      if (key_ == "deviceProperties" && !object)
        return Place::kDevices;
      return key_ == "vrank" && object ? Place::kVirtual : Place::kSkipped;
    case Place::kEvents:
      return object ? Place::kEvent : Place::kSkipped;
    case Place::kEvent:
      return object && in_args_ ? Place::kArgs : Place::kSkipped;
    case Place::kArgs:
      if (field_ == Field::kInputDims && !object)
        return Place::kDims;
      if (field_ == Field::kConcreteSize)
        return object ? Place::kSkipped : Place::kConcrete;
      return field_ == Field::kInputType && !object ? Place::kTypes : Place::kSkipped;
    case Place::kDims:
      return object ? Place::kSkipped : Place::kDims;
    case Place::kDistributed:
      return key_ == "pg_config" && !object ? Place::kGroups : Place::kSkipped;
    case Place::kGroups:
      return object ? Place::kGroup : Place::kSkipped;
    case Place::kGroup:
      return key_ == "ranks" && !object ? Place::kGroupRanks : Place::kSkipped;
    case Place::kDevices:
      return object ? Place::kDevice : Place::kSkipped;
    case Place::kVirtual:
      if (!object)
        return Place::kSkipped;
      return key_ == "host_ns" ? Place::kVirtualHost
             : key_ == "work"  ? Place::kVirtualWork
                               : Place::kSkipped;
    case Place::kVirtualWork:
      return object ? Place::kSkipped : Place::kVirtualNames;
    default:
      return Place::kSkipped;
  }
}

bool KinetoHandler::Key(const char* text, unsigned size, bool) {
  ValueRead();
  const std::string_view key(text, size);
  switch (places_.back()) {
    case Place::kEvent:
      field_ = EventField(key);
      in_args_ = key == "args";
      break;
    case Place::kArgs:
      field_ = ArgsField(key);
      break;
    case Place::kSkipped:
      break;
    case Place::kRoot:
      ++root_members_;
      key_.assign(key);
      break;
    default:
      key_.assign(key);
  }
  return true;
}

bool KinetoHandler::Open(bool object) {
  ValueRead();
  if (places_.size() == kDeepest) {
    error_ = fmt::format("values are nested more than {} deep", kDeepest);
    return false;
  }
  const Place place = Next(object);
  if (!object && !CheckEvents("a list"))
    return false;
  switch (place) {
    case Place::kEvents:
      header_.has_events = true;
      break;
    case Place::kEvent:
      event_.Clear();
      field_ = Field::kNone;
      in_args_ = false;
      break;
    case Place::kDims:
      if (places_.back() != Place::kDims) {
        dims_open_ = dims_done_ = false;
        dims_ = 1;
      }
      break;
    case Place::kConcrete:
      concrete_ = {};
      break;
    case Place::kGroup:
      header_.groups.emplace_back();
      break;
    case Place::kDevice:
      header_.gpus.emplace_back();
      break;
    case Place::kVirtual:
      header_.virtual_times.emplace();
      break;
    default:
      break;
  }
  places_.push_back(place);
  return true;
}

bool KinetoHandler::Close() {
  ValueRead();
  const Place place = places_.back();
  places_.pop_back();
  if (place == Place::kDims && dims_open_)
    dims_done_ = true;
  if (place == Place::kDims && places_.back() == Place::kArgs) {
    if (dims_done_)
      event_.Set(Field::kInputDims, fmt::format("{}", dims_));
    field_ = Field::kNone;
  }
  if (place == Place::kConcrete) {
    event_.Set(Field::kConcreteStart, concrete_[0]);
    event_.Set(Field::kConcreteStride, concrete_[1]);
    event_.Set(Field::kConcreteSize, concrete_[2]);
    field_ = Field::kNone;
  }
  if (place == Place::kArgs)
    field_ = Field::kNone;
  if (place != Place::kEvent)
    return true;
  ++events_;
  error_ = on_event_(event_);
  return error_.empty();
}

// Events are objects, and so are their "args".
bool KinetoHandler::CheckEvents(const char* found) {
  if (places_.empty())
    return true;
  if (places_.back() == Place::kEvents)
    error_ = fmt::format("the list of events holds {} where event {} should be", found,
                         events_ + 1);
  if (places_.back() == Place::kEvent && in_args_)
    error_ =
        fmt::format("the \"args\" of event {} are {}, no object", events_ + 1, found);
  return error_.empty();
}

bool KinetoHandler::Scalar(std::string_view text, Kind kind) {
  ValueRead();
  if (!places_.empty() && places_.back() == Place::kSkipped)
    return true;
  if (places_.empty()) {
    error_ = "the file is a single value";
    return false;
  }
  const bool no_args =  // spelled out
      kind == Kind::kNull && places_.back() == Place::kEvent;
  if (!no_args && !CheckEvents(kKinds[static_cast<size_t>(kind)]))
    return false;
  const bool number = kind == Kind::kNumber;
  switch (places_.back()) {
    case Place::kEvent:
    case Place::kArgs:
      if (field_ != Field::kNone && field_ != Field::kConcreteSize)
        event_.Set(field_, text);
      break;
    case Place::kConcrete:
      concrete_[0] = std::move(concrete_[1]);
      concrete_[1] = std::move(concrete_[2]);
      concrete_[2].assign(text);
      break;
    case Place::kDims:
      // The first list that holds numbers is the first tensor's shape.
      if (number && !dims_done_) {
        dims_open_ = true;
        const int64_t size = IntegerOr(text, 0);
        dims_ = size < 0 || (size != 0 &&
                             dims_ > std::numeric_limits<int64_t>::max() / size)
                    ? 0
                    : dims_ * size;
      }
      break;
    case Place::kTypes:
      if (!event_.Has(Field::kInputType))
        event_.Set(Field::kInputType, text);
      break;
    default:
      HeaderScalar(text, number);
  }
  return error_.empty();
}

void KinetoHandler::HeaderScalar(std::string_view text, bool number) {
  switch (places_.back()) {
    case Place::kRoot:
      if (key_ == "baseTimeNanoseconds")
        header_.base_ns = IntegerOr(text, 0);
      break;
    case Place::kDistributed:
      if (key_ == "rank")
        header_.rank = IntegerOr(text, -1);
      else if (key_ == "world_size")
        header_.world_size = IntegerOr(text, -1);
      else
        break;
      if (number && IntegerOr(text, -1) < 0)
        error_ = fmt::format("\"{}\" is {}, which is none of a job", key_, text);
      break;
    case Place::kGroup:
      if (key_ == "pg_name")
        header_.groups.back().name.assign(text);
      else if (key_ == "pg_size")
        header_.groups.back().size = IntegerOr(text, -1);
      break;
    case Place::kGroupRanks:
      if (number)
        header_.groups.back().ranks.push_back(
            static_cast<int32_t>(IntegerOr(text, -1)));
      break;
    case Place::kDevice:
      if (key_ == "name")
        header_.gpus.back().assign(text);
      break;
    case Place::kVirtualHost:
      if (key_ == "assumed")
        header_.virtual_times->assumed_host_ns = IntegerOr(text, 0);
      break;
    case Place::kVirtualNames:
      header_.virtual_times->work[std::string(text)].insert(SourceNamed(key_));
      break;
    default:
      break;
  }
}

}  // namespace vrank::graph
