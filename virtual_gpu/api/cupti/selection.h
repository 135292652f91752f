// Which activity records the client wants, and since which call.
//
// A call is reported after it was made (virtual_gpu/core/activity.h): the client may
// have enabled or disabled kinds in between. What counts is the choice at the time of
// the call, so each change is kept with the number of the last call before it, and a
// record is looked up by the number of its call (its correlation id). Ranges belong to
// no call; they are looked up by their time.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_CUPTI_SELECTION_H_
#define VRANK_VIRTUAL_GPU_API_CUPTI_SELECTION_H_

#include <cupti.h>

#include <bitset>
#include <cstdint>
#include <mutex>
#include <vector>

#include "virtual_gpu/api/cupti/cbids.h"

namespace vrank::cupti {

// One choice. CUPTI_ACTIVITY_KIND_RUNTIME and _DRIVER stand for all their functions.
class Selection {
 public:
  void Set(CUpti_ActivityKind kind, bool on);
  void SetFor(uint32_t context, CUpti_ActivityKind kind, bool on);
  void SetFunction(bool is_driver, uint32_t cbid, bool on) {
    functions_[is_driver].set(cbid, on);
  }

  bool Has(CUpti_ActivityKind kind) const;
  // "This setting [...] will supersede the global settings"
  // (cuptiActivityEnableContext).
  bool HasFor(uint32_t context, CUpti_ActivityKind kind) const;
  bool HasFunction(bool is_driver, uint32_t cbid) const {
    return functions_[is_driver].test(cbid);
  }
  bool empty() const;

 private:
  struct ContextChoice {
    uint32_t context;
    CUpti_ActivityKind kind;
    bool on;
  };
  uint64_t kinds_ = 0;  // bit: CUpti_ActivityKind
  std::bitset<kMaxCbids> functions_[2];
  std::vector<ContextChoice> contexts_;
};

class SelectionHistory {
 public:
  // Applies `change(Selection*)` for calls after number `last_call` and times from
  // `now_ns` on.
  template <typename ChangeFunction>
  void Change(uint32_t last_call, int64_t now_ns, ChangeFunction change) {
    std::lock_guard guard(mutex_);
    Selection next = versions_.empty() ? Selection() : versions_.back().selection;
    change(&next);
    Append(last_call, now_ns, next);
  }
  // As if nothing had ever been chosen.
  void Forget();

  // In force now.
  Selection Newest();
  bool Empty();

  // At the time of call `call`; 0, which is no call: now.
  bool Selects(CUpti_ActivityKind kind, uint32_t call);
  bool SelectsFor(uint32_t context, CUpti_ActivityKind kind, uint32_t call);
  bool SelectsFunction(bool is_driver, uint32_t cbid, uint32_t call);
  bool SelectsAt(CUpti_ActivityKind kind, int64_t time_ns);

 private:
  struct Version {
    uint32_t after_call;
    int64_t from_ns;
    Selection selection;
  };
  // REQUIRES: mutex_, for both.
  void Append(uint32_t last_call, int64_t now_ns, const Selection& next);
  const Selection& At(uint32_t call) const;

  std::mutex mutex_;
  std::vector<Version> versions_;  // oldest first
};

}  // namespace vrank::cupti

#endif  // VRANK_VIRTUAL_GPU_API_CUPTI_SELECTION_H_
