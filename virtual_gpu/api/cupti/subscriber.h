// CUPTI's callback API: the one subscriber, what it wants to hear, and telling it.
//
// Callbacks run on the program's thread, before and after the call. CUDA calls that a
// callback makes are carried out and recorded, but cause no further callback.
//
// Thread rule: may be called from any thread; the client serialises its own changes, as
// CUPTI demands. Whether anything is enabled is one load.

#ifndef VRANK_VIRTUAL_GPU_API_CUPTI_SUBSCRIBER_H_
#define VRANK_VIRTUAL_GPU_API_CUPTI_SUBSCRIBER_H_

#include <cupti.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "virtual_gpu/api/cupti/cbids.h"

// CUPTI declares the type behind its handle and leaves the definition to the library.
struct CUpti_Subscriber_st {
  CUpti_CallbackFunc callback = nullptr;
  void* userdata = nullptr;
  // As cuptiSubscribe_v2 tells it to the next one: "CUPTI for <subscriberName>".
  char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "CUPTI";
};

namespace vrank::cupti {

// One call of CUDA, as its callbacks see it.
struct ApiCallback {
  bool is_driver = false;
  const char* function = "";
  uint32_t correlation = 0;
  const void* parameters = nullptr;
  const char* symbol = nullptr;
  CUcontext context = nullptr;
  uint32_t context_id = 0;
};

class Subscribers {
 public:
  // Numbers of callbacks in a domain, from 1; 0 for domains that are not modelled.
  static uint32_t SizeOf(CUpti_CallbackDomain domain);

  // nullptr where there is one already; its name is then in *taken_by. `name` may be
  // null.
  CUpti_SubscriberHandle Subscribe(CUpti_CallbackFunc callback, void* userdata,
                                   const char* name, const char** taken_by);
  // False where `subscriber` is not the subscriber.
  bool Unsubscribe(CUpti_SubscriberHandle subscriber);
  void UnsubscribeAll();
  bool IsCurrent(CUpti_SubscriberHandle subscriber) const;

  // REQUIRES: 0 < cbid < SizeOf(domain).
  void Enable(CUpti_CallbackDomain domain, uint32_t cbid, bool on);
  void EnableDomain(CUpti_CallbackDomain domain, bool on);
  bool Enabled(CUpti_CallbackDomain domain, uint32_t cbid) const;
  // Somebody subscribes, and some callback is enabled.
  bool Active() const { return active_.load(std::memory_order_relaxed); }

  void Enter(const ApiCallback& call);
  void Exit(const ApiCallback& call, int32_t result);
  // `data`: the struct that CUPTI documents for the domain.
  void Tell(CUpti_CallbackDomain domain, uint32_t cbid, const void* data);

 private:
  static constexpr unsigned kWords = kMaxCbids / 64;

  void UpdateActive();

  mutable std::mutex mutex_;  // subscribing
  std::atomic<CUpti_SubscriberHandle> current_{nullptr};
  std::atomic<bool> active_{false};
  std::array<std::array<std::atomic<uint64_t>, kWords>, CUPTI_CB_DOMAIN_SIZE>
      enabled_{};
};

}  // namespace vrank::cupti

#endif  // VRANK_VIRTUAL_GPU_API_CUPTI_SUBSCRIBER_H_
