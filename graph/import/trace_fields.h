// The members of Chrome's trace events and of Kineto's arguments that an import reads.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_IMPORT_TRACE_FIELDS_H_
#define VRANK_GRAPH_IMPORT_TRACE_FIELDS_H_

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace vrank::graph {

enum class Field : uint8_t {
  // Members of an event.
  kPhase,
  kCategory,
  kName,
  kProcess,
  kThread,
  kTime,
  kDuration,
  // Members of its "args".
  kStream,
  kDevice,
  kCorrelation,
  kCollective,
  kInElements,
  kOutElements,
  kGroupSize,
  kElementType,
  kSequence,
  kGroupName,
  kGroupRanks,
  kGroupStart,
  kGroupStride,
  kSourceRank,
  kDestinationRank,
  kGroupPeer,
  kSyncKind,
  kAwaitedStream,
  kRecordCorrelation,
  // The last ones of "Concrete Inputs", which are these of record_param_comms.
  kConcreteStart,
  kConcreteStride,
  kConcreteSize,
  kInputDims,  // elements of the first tensor, as the handler has counted them
  kInputType,  // of the first tensor
  kDeviceType,
  kDeviceId,
  kTotalAllocated,
  kTotalReserved,
  kCount,
  kNone = kCount,
};

inline constexpr size_t kFields = static_cast<size_t>(Field::kCount);

inline Field EventField(std::string_view key) {
  if (key == "ph")
    return Field::kPhase;
  if (key == "cat")
    return Field::kCategory;
  if (key == "name")
    return Field::kName;
  if (key == "pid")
    return Field::kProcess;
  if (key == "tid")
    return Field::kThread;
  if (key == "ts")
    return Field::kTime;
  if (key == "dur")
    return Field::kDuration;
  return Field::kNone;
}

struct FieldName {
  std::string_view key;
  Field field;
};
inline constexpr FieldName kArgsFields[] = {
    {"stream", Field::kStream},
    {"device", Field::kDevice},
    {"correlation", Field::kCorrelation},
    {"Collective name", Field::kCollective},
    {"In msg nelems", Field::kInElements},
    {"Out msg nelems", Field::kOutElements},
    {"Group size", Field::kGroupSize},
    {"dtype", Field::kElementType},
    {"Seq", Field::kSequence},
    {"Process Group Name", Field::kGroupName},
    {"Process Group Ranks", Field::kGroupRanks},
    {"Global rank start", Field::kGroupStart},
    {"Global rank stride", Field::kGroupStride},
    {"Src Rank", Field::kSourceRank},
    {"Dst Rank", Field::kDestinationRank},
    {"Rank", Field::kGroupPeer},
    {"cuda_sync_kind", Field::kSyncKind},
    {"wait_on_stream", Field::kAwaitedStream},
    {"wait_on_cuda_event_record_corr_id", Field::kRecordCorrelation},
    {"Concrete Inputs", Field::kConcreteSize},
    {"Input Dims", Field::kInputDims},
    {"Input type", Field::kInputType},
    {"Device Type", Field::kDeviceType},
    {"Device Id", Field::kDeviceId},
    {"Total Allocated", Field::kTotalAllocated},
    {"Total Reserved", Field::kTotalReserved},
};

// By length, since nearly all keys of a trace are none of these.
inline Field ArgsField(std::string_view key) {
  constexpr size_t kLongest = 33;
  struct Lengths {
    std::array<uint32_t, kLongest + 1> fields{};  // a bit for each row
  };
  static constexpr Lengths kOfLength = [] {
    Lengths lengths;
    for (size_t i = 0; i < std::size(kArgsFields); ++i)
      lengths.fields[kArgsFields[i].key.size()] |= uint32_t{1} << i;
    return lengths;
  }();
  if (key.size() > kLongest)
    return Field::kNone;
  for (uint32_t rows = kOfLength.fields[key.size()]; rows != 0; rows &= rows - 1) {
    const FieldName& row = kArgsFields[std::countr_zero(rows)];
    if (row.key == key)
      return row.field;
  }
  return Field::kNone;
}

// The members of one event, as they are spelled.
class TraceEvent {
 public:
  void Clear() {
    for (; present_ != 0; present_ &= present_ - 1)
      texts_[static_cast<size_t>(std::countr_zero(present_))].clear();
  }
  void Set(Field field, std::string_view text) {
    texts_[static_cast<size_t>(field)].assign(text);
    present_ |= Bit(field);
  }
  bool Has(Field field) const { return (present_ & Bit(field)) != 0; }
  const std::string& operator[](Field field) const {
    return texts_[static_cast<size_t>(field)];
  }
  // Nothing where it is missing or no whole number.
  std::optional<int64_t> Integer(Field field) const {
    const std::string& text = (*this)[field];
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end)
      return std::nullopt;
    return value;
  }

 private:
  std::array<std::string, kFields> texts_;
  static_assert(kFields <= 64);
  static uint64_t Bit(Field field) { return uint64_t{1} << static_cast<size_t>(field); }

  uint64_t present_ = 0;  // a bit for each field
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_TRACE_FIELDS_H_
