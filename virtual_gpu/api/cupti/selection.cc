#include "virtual_gpu/api/cupti/selection.h"

namespace vrank::cupti {
namespace {

const Selection kNothing;

}  // namespace

void Selection::Set(CUpti_ActivityKind kind, bool on) {
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME || kind == CUPTI_ACTIVITY_KIND_DRIVER) {
    auto& functions = functions_[kind == CUPTI_ACTIVITY_KIND_DRIVER];
    on ? functions.set() : functions.reset();
    return;
  }
  const uint64_t bit = uint64_t{1} << kind;
  kinds_ = on ? kinds_ | bit : kinds_ & ~bit;
}

void Selection::SetFor(uint32_t context, CUpti_ActivityKind kind, bool on) {
  for (ContextChoice& choice : contexts_) {
    if (choice.context == context && choice.kind == kind) {
      choice.on = on;
      return;
    }
  }
  contexts_.push_back({context, kind, on});
}

bool Selection::Has(CUpti_ActivityKind kind) const {
  return (kinds_ >> kind & 1) != 0;
}

bool Selection::HasFor(uint32_t context, CUpti_ActivityKind kind) const {
  for (const ContextChoice& choice : contexts_)
    if (choice.context == context && choice.kind == kind)
      return choice.on;
  return Has(kind);
}

bool Selection::empty() const {
  if (kinds_ != 0 || functions_[0].any() || functions_[1].any())
    return false;
  for (const ContextChoice& choice : contexts_)
    if (choice.on)
      return false;
  return true;
}

void SelectionHistory::Append(uint32_t last_call, int64_t now_ns,
                              const Selection& next) {
  // Between two calls only the last choice matters, except for ranges; those are told
  // apart by time.
  if (!versions_.empty() && versions_.back().after_call == last_call &&
      versions_.back().from_ns == now_ns) {
    versions_.back().selection = next;
    return;
  }
  versions_.push_back({last_call, now_ns, next});
}

void SelectionHistory::Forget() {
  std::lock_guard guard(mutex_);
  versions_.clear();
}

Selection SelectionHistory::Newest() {
  std::lock_guard guard(mutex_);
  return At(0);
}

bool SelectionHistory::Empty() {
  std::lock_guard guard(mutex_);
  return At(0).empty();
}

const Selection& SelectionHistory::At(uint32_t call) const {
  for (size_t i = versions_.size(); i > 0; --i)
    if (call == 0 || versions_[i - 1].after_call < call)
      return versions_[i - 1].selection;
  return kNothing;
}

bool SelectionHistory::Selects(CUpti_ActivityKind kind, uint32_t call) {
  std::lock_guard guard(mutex_);
  return At(call).Has(kind);
}

bool SelectionHistory::SelectsFor(uint32_t context, CUpti_ActivityKind kind,
                                  uint32_t call) {
  std::lock_guard guard(mutex_);
  return At(call).HasFor(context, kind);
}

bool SelectionHistory::SelectsFunction(bool is_driver, uint32_t cbid, uint32_t call) {
  std::lock_guard guard(mutex_);
  return At(call).HasFunction(is_driver, cbid);
}

bool SelectionHistory::SelectsAt(CUpti_ActivityKind kind, int64_t time_ns) {
  std::lock_guard guard(mutex_);
  for (size_t i = versions_.size(); i > 0; --i)
    if (versions_[i - 1].from_ns <= time_ns)
      return versions_[i - 1].selection.Has(kind);
  return false;
}

}  // namespace vrank::cupti
