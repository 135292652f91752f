// Fetching of results in pieces of the bounce area, and waiting for host functions.

#include "virtual_gpu/core/obligations.h"

#include <algorithm>
#include <cstring>

#include "virtual_gpu/core/pending_value.h"

namespace vrank::gpu {

uint64_t Obligations::AddLanding(const Landing& landing) {
  std::lock_guard lock(mutex_);
  entries_[next_id_].landing = landing;
  return next_id_++;
}

uint64_t Obligations::AddForeign() {
  std::lock_guard lock(mutex_);
  entries_[next_id_].foreign = true;
  return next_id_++;
}

uint64_t Obligations::AddArrival() {
  std::lock_guard lock(mutex_);
  entries_[next_id_].arrival = true;
  return next_id_++;
}

uint64_t Obligations::AddFailure(std::function<void()> tell) {
  std::lock_guard lock(mutex_);
  entries_[next_id_].failure = std::move(tell);
  return next_id_++;
}

bool Obligations::HaveArrived(const ObligationSet& ids) {
  std::lock_guard lock(mutex_);
  return std::none_of(ids.begin(), ids.end(),
                      [&](uint64_t id) { return entries_.contains(id); });
}

void Obligations::Prune(ObligationSet* ids) {
  if (ids->empty())
    return;
  std::lock_guard lock(mutex_);
  std::erase_if(*ids, [&](uint64_t id) { return !entries_.contains(id); });
}

void Obligations::Finish(uint64_t id) {
  std::lock_guard lock(mutex_);
  entries_.erase(id);
  changed_.notify_all();
}

bool Obligations::empty() {
  std::lock_guard lock(mutex_);
  return entries_.empty();
}

bool Obligations::AnyForeign(const ObligationSet& ids) {
  std::lock_guard lock(mutex_);
  return std::any_of(ids.begin(), ids.end(), [&](uint64_t id) {
    const auto found = entries_.find(id);
    return found != entries_.end() && found->second.foreign;
  });
}

Error Obligations::Settle(const ObligationSet& ids) {
  Error result = Error::kSuccess;
  for (uint64_t id : ids)
    if (const Error error = SettleOne(id); error != Error::kSuccess)
      result = error;
  return result;
}

Error Obligations::SettleOne(uint64_t id) {
  std::unique_lock lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end())
    return Error::kSuccess;
  if (found->second.arrival) {
    entries_.erase(found);
    return Error::kSuccess;
  }
  if (found->second.failure) {
    const std::function<void()> tell = std::move(found->second.failure);
    entries_.erase(found);
    lock.unlock();
    tell();
    return Error::kAssert;
  }
  if (found->second.foreign || found->second.running) {
    changed_.wait(lock, [&] { return !entries_.contains(id); });
    return Error::kSuccess;
  }
  found->second.running = true;
  const Landing landing = found->second.landing;
  lock.unlock();
  Land(landing);
  lock.lock();
  entries_.erase(id);
  changed_.notify_all();
  return Error::kSuccess;
}

std::vector<Landing> Obligations::Overlapping(const void* from, uint64_t bytes) {
  const auto* begin = static_cast<const unsigned char*>(from);
  const unsigned char* end = begin + bytes;
  std::vector<Landing> found;
  std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : entries_) {
    const Landing& landing = entry.landing;
    const unsigned char* cut_begin = std::max<const unsigned char*>(begin, landing.to);
    const unsigned char* cut_end =
        std::min<const unsigned char*>(end, landing.to + landing.bytes);
    if (entry.foreign || entry.landing.to == nullptr || cut_begin >= cut_end)
      continue;
    const auto skipped = static_cast<uint64_t>(cut_begin - landing.to);
    found.push_back({landing.key, landing.offset + skipped,
                     static_cast<uint64_t>(cut_end - cut_begin), landing.to + skipped,
                     landing.pending});
  }
  return found;
}

void Obligations::Miss(const Landing& landing, uint64_t from, uint64_t bytes) {
  if (landing.known == nullptr)
    write_computed_(landing.to + from, bytes);
  else
    std::memset(landing.known + from, 0, bytes);
}

bool Obligations::LandValue(const Landing& landing) {
  PendingValue& value = *landing.pending;
  {
    std::lock_guard lock(value.mutex);
    if (!value.settled) {
      for (const Landing& input : value.landings)
        Land(input);
      value.result.resize(value.result_bytes);
      value.result_known.resize(value.result_bytes);
      value.compute(value.inputs, value.known, value.result, value.result_known);
      value.settled = true;
      // It took part in chains of values.
      value.landings.clear();
      value.inputs.clear();
      value.known.clear();
      value.compute = nullptr;
    }
  }
  // What is settled does not change.
  bool all_known = true;
  for (uint64_t done = 0; done < landing.bytes;) {
    const unsigned char* const known = &value.result_known[landing.offset + done];
    const unsigned char* const end =
        std::find_if(known, known + (landing.bytes - done),
                     [&](unsigned char flag) { return flag != *known; });
    const auto bytes = static_cast<uint64_t>(end - known);
    if (*known == 0) {
      Miss(landing, done, bytes);
      all_known = false;
    } else {
      std::memcpy(landing.to + done, &value.result[landing.offset + done], bytes);
      if (landing.known != nullptr)
        std::memset(landing.known + done, 0xff, bytes);
    }
    done += bytes;
  }
  return all_known;
}

void Obligations::BeforeNextFetch(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  before_fetch_.push_back(std::move(call));
}

bool Obligations::Land(const Landing& landing) {
  std::vector<std::function<void()>> before;
  {
    std::lock_guard lock(mutex_);
    before.swap(before_fetch_);
  }
  for (const auto& call : before)
    call();
  if (landing.pending != nullptr)
    return LandValue(landing);
  bool known = true;
  for (uint64_t done = 0; done < landing.bytes;) {
    protocol::FetchPayload question{};
    question.record.kind = protocol::RecordKind::kFetchPayload;
    question.key = landing.key;
    question.offset = landing.offset + done;
    question.bytes = std::min<uint64_t>(landing.bytes - done, protocol::kBounceBytes);
    channel_->LockBounce();
    const Answer answer = channel_->Ask(question);
    const uint64_t value = answer.value;
    const bool arrived = value <= question.bytes && value > 0;
    if (arrived)
      std::memcpy(landing.to + done, channel_->bounce(), value);
    if (arrived && landing.known != nullptr)
      std::memset(landing.known + done, 0xff, value);
    channel_->UnlockBounce();
    if (!arrived) {
      // Some member's contribution was computed, for as far as the answer says.
      const auto told = static_cast<uint64_t>(answer.end.nanoseconds());
      const uint64_t left = landing.bytes - done;
      const uint64_t computed = told > 0 ? std::min(told, left) : left;
      Miss(landing, done, computed);
      done += computed;
      known = false;
      continue;
    }
    done += value;
  }
  return known;
}

}  // namespace vrank::gpu
