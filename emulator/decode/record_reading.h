// Reading one guest record without trusting it: sizes, ranges and limits.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_DECODE_RECORD_READING_H_
#define VRANK_EMULATOR_DECODE_RECORD_READING_H_

#include <cstdint>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "base/guest/protocol.h"
#include "graph/schema/op.h"

namespace vrank::emulator {

// Limits that no sane guest comes near; beyond them a number is a broken record.
inline constexpr uint32_t kMaxLanes = 1u << 20;
inline constexpr uint32_t kMaxTokens = 1u << 24;
inline constexpr uint32_t kMaxCommunicators = 1u << 24;
inline constexpr uint32_t kMaxMembers = 1u << 24;
inline constexpr uint32_t kMaxDevices = 1024;        // of one process
inline constexpr int64_t kMaxNs = int64_t{1} << 60;  // 36 years

inline absl::Status Malformed(std::string text) {
  return absl::InvalidArgumentError(std::move(text));
}

// The enumerator is one of those up to `last`.
template <typename E>
bool AtMost(E value, E last) {
  return static_cast<uint64_t>(value) <= static_cast<uint64_t>(last);
}

// The record as a T with at least `tail` bytes behind it.
template <typename T>
absl::StatusOr<const T*> RecordAs(const protocol::Record& record, uint64_t tail = 0) {
  if (record.size < sizeof(T) || record.size - sizeof(T) < tail)
    return Malformed(fmt::format("{} bytes, needs {}", record.size, sizeof(T) + tail));
  return reinterpret_cast<const T*>(&record);
}

inline bool IsFromHelper(const protocol::Record& record) {
  return (record.flags & protocol::kFromHelper) != 0;
}

// Who vouches for a duration that the record states.
inline graph::Source ValueSource(const protocol::Record& record) {
  return (record.flags & protocol::kValueAssumed) != 0 ? graph::Source::kAssumed
                                                       : graph::Source::kModelled;
}

// ... and for the host time before it. `unmarked`: where no flag says.
inline graph::Source HostSourceOf(const protocol::Record& record,
                                  graph::Source unmarked) {
  if ((record.flags & protocol::kHostTimeAssumed) != 0)
    return graph::Source::kAssumed;
  if ((record.flags & protocol::kHostTimeMeasured) != 0)
    return graph::Source::kMeasured;
  if ((record.flags & protocol::kHostTimeRecorded) != 0)
    return graph::Source::kRecorded;
  return unmarked;
}

inline absl::Status CheckSlot(uint32_t slot, bool required) {
  if (slot < protocol::kAnswerSlots || (slot == protocol::kNoSlot && !required))
    return absl::OkStatus();
  return Malformed(fmt::format("answer slot {} of {}", slot, protocol::kAnswerSlots));
}

inline absl::Status CheckCommunicator(uint32_t communicator) {
  if (communicator == 0 || communicator >= kMaxCommunicators)
    return Malformed(fmt::format("communicator {}", communicator));
  return absl::OkStatus();
}

inline absl::Status CheckWorkLane(uint32_t lane) {
  if (lane == protocol::kHostLane || lane >= kMaxLanes)
    return Malformed(fmt::format("lane {} is no lane for work", lane));
  return absl::OkStatus();
}

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_DECODE_RECORD_READING_H_
