#include "virtual_host/turns/issuing_threads.h"

namespace vrank::host {

Issuer* IssuingThreads::Add(HostThread* helper) {
  Issuer* made = nullptr;
  for (const auto& issuer : issuers_)
    if (!issuer->used && issuer.get() != last_)
      made = issuer.get();
  if (made == nullptr)
    made = issuers_.emplace_back(std::make_unique<Issuer>()).get();
  *made = {};
  if (!own_time_)
    made->turn = scheduler_->BeginIssuing(helper);
  else if (helper != nullptr)
    scheduler_->End(helper);
  return made;
}

void IssuingThreads::Remove(Issuer* issuer) {
  if (issuer->turn != nullptr)
    scheduler_->End(issuer->turn);
  *issuer = {.used = false};
}

void IssuingThreads::ForgetAll() {
  for (const auto& issuer : issuers_)
    *issuer = {.used = false};
  last_ = nullptr;
  uncounted_ = 0;
}

void IssuingThreads::TakeOver(Issuer* self) {
  Issuer* const before = std::exchange(last_, self);
  if (before == nullptr || before->turn == nullptr || self->turn == nullptr)
    return;
  if (!scheduler_->IssuesBeside(self->turn, before->turn))
    return;
  for (Issuer* const issuer : {self, before})
    uncounted_ += std::exchange(issuer->counted, true) ? 0 : 1;
}

}  // namespace vrank::host
