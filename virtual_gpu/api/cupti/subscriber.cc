#include "virtual_gpu/api/cupti/subscriber.h"

#include <cstdio>
#include <cstring>
#include <vector>

#include "base/guest/thread_value.h"

namespace vrank::cupti {
namespace {

// A call of this thread that has been entered: its slot for the client's 64 bits.
struct OpenCall {
  bool is_driver;
  uint32_t cbid;
  uint32_t correlation;
  uint64_t data;
};
struct OpenCalls {
  std::vector<OpenCall> calls;
};
std::vector<OpenCall>& MyOpenCalls() {
  return ThreadValue<OpenCalls>::Mine().calls;
}

// The calling thread runs a callback.
thread_local bool in_callback = false;

CUpti_CallbackDomain DomainOf(const ApiCallback& call) {
  return call.is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
}

CUpti_CallbackData DataOf(const ApiCallback& call, CUpti_ApiCallbackSite site,
                          uint64_t* slot, int32_t* result) {
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = call.function;
  data.functionParams = call.parameters;
  data.functionReturnValue = result;
  data.symbolName = call.symbol;
  data.context = call.context;
  data.contextUid = call.context_id;
  data.correlationData = slot;
  data.correlationId = call.correlation;
  return data;
}

}  // namespace

uint32_t Subscribers::SizeOf(CUpti_CallbackDomain domain) {
  switch (domain) {
    case CUPTI_CB_DOMAIN_DRIVER_API:
      return kDriverCbidCount;
    case CUPTI_CB_DOMAIN_RUNTIME_API:
      return kRuntimeCbidCount;
    case CUPTI_CB_DOMAIN_RESOURCE:
      return CUPTI_CBID_RESOURCE_SIZE;
    case CUPTI_CB_DOMAIN_SYNCHRONIZE:
      return CUPTI_CBID_SYNCHRONIZE_SIZE;
    case CUPTI_CB_DOMAIN_STATE:
      return CUPTI_CBID_STATE_SIZE;
    default:
      return 0;
  }
}

CUpti_SubscriberHandle Subscribers::Subscribe(CUpti_CallbackFunc callback,
                                              void* userdata, const char* name,
                                              const char** taken_by) {
  std::lock_guard guard(mutex_);
  if (CUpti_SubscriberHandle other = current_.load()) {
    *taken_by = other->name;
    return nullptr;
  }
  // Never deleted: a callback on another thread may still be looking at it.
  auto* made = new CUpti_Subscriber_st;
  made->callback = callback;
  made->userdata = userdata;
  if (name != nullptr)
    std::snprintf(made->name, sizeof made->name, "CUPTI for %.*s",
                  CUPTI_SUBSCRIBER_NAME_MAX_LEN, name);
  for (auto& domain : enabled_)
    for (auto& word : domain)
      word.store(0);
  current_.store(made);
  UpdateActive();
  return made;
}

bool Subscribers::Unsubscribe(CUpti_SubscriberHandle subscriber) {
  std::lock_guard guard(mutex_);
  if (subscriber == nullptr || subscriber != current_.load())
    return false;
  current_.store(nullptr);
  UpdateActive();
  return true;
}

void Subscribers::UnsubscribeAll() {
  std::lock_guard guard(mutex_);
  current_.store(nullptr);
  UpdateActive();
}

bool Subscribers::IsCurrent(CUpti_SubscriberHandle subscriber) const {
  return subscriber != nullptr && subscriber == current_.load();
}

void Subscribers::Enable(CUpti_CallbackDomain domain, uint32_t cbid, bool on) {
  std::lock_guard guard(mutex_);
  const uint64_t bit = uint64_t{1} << cbid % 64;
  std::atomic<uint64_t>& word = enabled_[domain][cbid / 64];
  on ? word.fetch_or(bit) : word.fetch_and(~bit);
  UpdateActive();
}

void Subscribers::EnableDomain(CUpti_CallbackDomain domain, bool on) {
  for (uint32_t cbid = 1; cbid < SizeOf(domain); ++cbid)
    Enable(domain, cbid, on);
}

bool Subscribers::Enabled(CUpti_CallbackDomain domain, uint32_t cbid) const {
  return (enabled_[domain][cbid / 64].load(std::memory_order_relaxed) >> cbid % 64 &
          1) != 0;
}

void Subscribers::UpdateActive() {
  bool any = false;
  for (const auto& domain : enabled_)
    for (const auto& word : domain)
      any = any || word.load() != 0;
  active_.store(any && current_.load() != nullptr);
}

void Subscribers::Enter(const ApiCallback& call) {
  if (in_callback)
    return;
  const uint32_t cbid = FindCbid(call.is_driver, call.function);
  std::vector<OpenCall>& open_calls = MyOpenCalls();
  open_calls.push_back({call.is_driver, cbid, call.correlation, 0});
  if (cbid == 0 || !Enabled(DomainOf(call), cbid))
    return;
  // A copy: the callback may make CUDA calls, which move the others.
  uint64_t slot = 0;
  const CUpti_CallbackData data = DataOf(call, CUPTI_API_ENTER, &slot, nullptr);
  Tell(DomainOf(call), cbid, &data);
  open_calls.back().data = slot;
}

void Subscribers::Exit(const ApiCallback& call, int32_t result) {
  if (in_callback)
    return;
  const uint32_t cbid = FindCbid(call.is_driver, call.function);
  // Calls entered before anything was enabled have no entry here.
  uint64_t slot = 0;
  std::vector<OpenCall>& open_calls = MyOpenCalls();
  if (!open_calls.empty()) {
    const OpenCall& top = open_calls.back();
    if (top.is_driver == call.is_driver && top.cbid == cbid &&
        top.correlation == call.correlation) {
      slot = top.data;
      open_calls.pop_back();
    }
  }
  if (cbid == 0 || !Enabled(DomainOf(call), cbid))
    return;
  const CUpti_CallbackData data = DataOf(call, CUPTI_API_EXIT, &slot, &result);
  Tell(DomainOf(call), cbid, &data);
}

void Subscribers::Tell(CUpti_CallbackDomain domain, uint32_t cbid, const void* data) {
  const CUpti_SubscriberHandle subscriber = current_.load();
  if (subscriber == nullptr || in_callback || !Enabled(domain, cbid))
    return;
  in_callback = true;
  subscriber->callback(subscriber->userdata, domain, cbid, data);
  in_callback = false;
}

}  // namespace vrank::cupti
