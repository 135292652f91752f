// The table of recorded gaps in a rank's segment (protocol::RecordedGaps): the emulator
// fills it, the rank looks gaps up.
//
// Thread rule: one thread fills it; then any thread reads.

#ifndef VRANK_BASE_GUEST_GAP_TABLE_H_
#define VRANK_BASE_GUEST_GAP_TABLE_H_

#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank {

// Keys that it takes: a fuller table has long runs to search.
inline constexpr uint32_t kMostRecordedGaps = protocol::kRecordedGaps / 4 * 3;

// The key's entry, or the free one where it belongs.
inline protocol::RecordedGap* FindGapEntry(protocol::RecordedGaps* gaps, uint64_t key) {
  uint64_t at = key % protocol::kRecordedGaps;
  while (gaps->entries[at].key != 0 && gaps->entries[at].key != key)
    at = (at + 1) % protocol::kRecordedGaps;
  return &gaps->entries[at];
}

// nullptr: not recorded.
inline const protocol::RecordedGap* FindGap(protocol::RecordedGaps* gaps,
                                            uint64_t key) {
  const protocol::RecordedGap* const entry = FindGapEntry(gaps, key);
  return entry->key == 0 ? nullptr : entry;
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_GAP_TABLE_H_
