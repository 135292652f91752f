#include "virtual_gpu/api/cupti/cbids.h"

#include <array>
#include <cstring>

namespace vrank::cupti {
namespace {

// Open addressing at a load of one half: a look-up is about one comparison.
class Index {
 public:
  Index(const CbidRow* rows, unsigned count) : rows_(rows) {
    for (unsigned cbid = 0; cbid < count && cbid < kMaxCbids; ++cbid) {
      if (rows[cbid].function == nullptr || !rows[cbid].current)
        continue;
      uint32_t slot = Hash(rows[cbid].function);
      while (slots_[slot] != 0)
        slot = (slot + 1) % kSlots;
      slots_[slot] = static_cast<uint16_t>(cbid);
    }
  }

  uint32_t Find(const char* function) const {
    for (uint32_t slot = Hash(function); slots_[slot] != 0; slot = (slot + 1) % kSlots)
      if (std::strcmp(rows_[slots_[slot]].function, function) == 0)
        return slots_[slot];
    return 0;
  }

 private:
  static constexpr uint32_t kSlots = 2 * kMaxCbids;

  static uint32_t Hash(const char* text) {  // FNV-1a
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; ++text)
      hash = (hash ^ static_cast<unsigned char>(*text)) * 16777619u;
    return hash % kSlots;
  }

  const CbidRow* const rows_;
  std::array<uint16_t, kSlots> slots_{};  // cbids; 0 is none
};

}  // namespace

const CbidRow* RowOf(bool is_driver, uint32_t cbid) {
  if (cbid >= (is_driver ? kDriverCbidCount : kRuntimeCbidCount))
    return nullptr;
  const CbidRow* row = is_driver ? &kDriverCbids[cbid] : &kRuntimeCbids[cbid];
  return row->name == nullptr ? nullptr : row;
}

uint32_t FindCbid(bool is_driver, const char* function) {
  static const Index* const driver = new Index(kDriverCbids, kDriverCbidCount);
  static const Index* const runtime = new Index(kRuntimeCbids, kRuntimeCbidCount);
  return (is_driver ? driver : runtime)->Find(function);
}

}  // namespace vrank::cupti
