// libcupti, chapter "Callback API".
//
// Domains: driver, runtime (parameters of graph launches, of no other call), resource
// (contexts, streams, cuInit, nodes and edges of graphs, executable graphs),
// synchronize (contexts), state (which has nothing to tell: this library has no errors
// of its own). The NVTX domain is not modelled; ranges are activity records.

#include <atomic>
#include <cstring>

#include "base/guest/export.h"
#include "base/guest/raw_log.h"
#include "virtual_gpu/api/cupti/profiler.h"

using vrank::cupti::Call;
using vrank::cupti::Profiler;
using vrank::cupti::Subscribers;

namespace {

CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API,
                                  CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_RESOURCE,
                                  CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CB_DOMAIN_STATE};

// The virtual GPU does not tell modules apart, nor which stream a call waited for; of
// graphs it tells nodes, edges and what is executable.
bool IsModelled(CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE)
    return cbid != CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED;
  return domain != CUPTI_CB_DOMAIN_RESOURCE ||
         (cbid != CUPTI_CBID_RESOURCE_MODULE_LOADED &&
          cbid != CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING &&
          cbid != CUPTI_CBID_RESOURCE_MODULE_PROFILED &&
          cbid != CUPTI_CBID_RESOURCE_GRAPH_CREATED &&
          cbid != CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING &&
          cbid != CUPTI_CBID_RESOURCE_GRAPH_CLONED &&
          cbid != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING &&
          cbid != CUPTI_CBID_RESOURCE_STREAM_ATTRIBUTE_CHANGED);
}

// Runs `step(subscribers)` for the subscriber and a callback that exists.
template <typename Step>
CUptiResult ForCallback(CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                        CUpti_CallbackId cbid, Step step) {
  return Call([&](Profiler& profiler) {
    Subscribers& subscribers = profiler.subscribers();
    if (!subscribers.IsCurrent(subscriber) || cbid == 0 ||
        cbid >= Subscribers::SizeOf(domain))
      return CUPTI_ERROR_INVALID_PARAMETER;
    return step(profiler);
  });
}

// What cuptiSubscribe_v2 says of the tool that is there already.
void CopyName(const char* name, const CUpti_SubscriberParams& parameters) {
  if (parameters.oldSubscriberName == nullptr || parameters.oldSubscriberSize == 0)
    return;
  std::strncpy(parameters.oldSubscriberName, name, parameters.oldSubscriberSize - 1);
  parameters.oldSubscriberName[parameters.oldSubscriberSize - 1] = '\0';
}

// Programs tend to keep such a result to themselves.
void SayRefused(const char* other) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    vrank::RawLog("libcupti.so.13",
                  "cuptiSubscribe is refused: '%s' subscribes already, and CUPTI has "
                  "room for one; to profile the program run it without that",
                  other);
}

CUptiResult Subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                      void* userdata, const CUpti_SubscriberParams* parameters) {
  return Call([=](Profiler& profiler) {
    if (subscriber == nullptr || callback == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    const char* other = nullptr;
    const char* name = parameters == nullptr ? nullptr : parameters->subscriberName;
    const CUpti_SubscriberHandle made =
        profiler.subscribers().Subscribe(callback, userdata, name, &other);
    if (made == nullptr) {
      SayRefused(other);
      if (parameters != nullptr)
        CopyName(other, *parameters);
      return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    *subscriber = made;
    return CUPTI_SUCCESS;
  });
}

}  // namespace

// --- Subscribing ---------------------------------------------------------------------

VRANK_CUPTI cuptiSupportedDomains(size_t* count, CUpti_DomainTable* table) {
  return Call([=](Profiler&) {
    if (count == nullptr || table == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    *count = std::size(domains);
    *table = domains;
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiSubscribe(CUpti_SubscriberHandle* subscriber,
                           CUpti_CallbackFunc callback, void* userdata) {
  return Subscribe(subscriber, callback, userdata, nullptr);
}

VRANK_CUPTI cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber,
                              CUpti_CallbackFunc callback, void* userdata,
                              CUpti_SubscriberParams* parameters) {
  if (parameters != nullptr &&
      parameters->structSize < CUpti_SubscriberParams_STRUCT_SIZE)
    return vrank::cupti::Leave(CUPTI_ERROR_INVALID_PARAMETER);
  return Subscribe(subscriber, callback, userdata, parameters);
}

VRANK_CUPTI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  return Call([=](Profiler& profiler) {
    if (!profiler.subscribers().Unsubscribe(subscriber))
      return CUPTI_ERROR_INVALID_PARAMETER;
    profiler.ListenIfNeeded();
    return CUPTI_SUCCESS;
  });
}

// --- Choosing callbacks --------------------------------------------------------------

VRANK_CUPTI cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle subscriber,
                                  CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  return ForCallback(subscriber, domain, cbid, [=](Profiler& profiler) {
    if (enable == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    *enable = profiler.subscribers().Enabled(domain, cbid);
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  return ForCallback(subscriber, domain, cbid, [=](Profiler& profiler) {
    if (enable != 0 && !IsModelled(domain, cbid)) {
      vrank::cupti::Refuse(
          "cuptiEnableCallback of modules, whole graphs or waits for streams");
      return CUPTI_ERROR_NOT_SUPPORTED;
    }
    profiler.subscribers().Enable(domain, cbid, enable != 0);
    profiler.ListenIfNeeded();
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain) {
  return Call([=](Profiler& profiler) {
    if (domain == CUPTI_CB_DOMAIN_NVTX && enable != 0)
      vrank::cupti::Refuse("cuptiEnableDomain(CUPTI_CB_DOMAIN_NVTX)");
    if (!profiler.subscribers().IsCurrent(subscriber) ||
        Subscribers::SizeOf(domain) == 0)
      return CUPTI_ERROR_INVALID_PARAMETER;
    profiler.subscribers().EnableDomain(domain, enable != 0);
    profiler.ListenIfNeeded();
    return CUPTI_SUCCESS;
  });
}

// "Enable or disable all callbacks in all domains": those of cuptiSupportedDomains.
VRANK_CUPTI cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  return Call([=](Profiler& profiler) {
    if (!profiler.subscribers().IsCurrent(subscriber))
      return CUPTI_ERROR_INVALID_PARAMETER;
    for (CUpti_CallbackDomain domain : domains)
      profiler.subscribers().EnableDomain(domain, enable != 0);
    profiler.ListenIfNeeded();
    return CUPTI_SUCCESS;
  });
}

// "Names are available only for the DRIVER and RUNTIME domains."
VRANK_CUPTI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                 const char** name) {
  if (name == nullptr)
    return vrank::cupti::Leave(CUPTI_ERROR_INVALID_PARAMETER);
  *name = nullptr;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    const vrank::cupti::CbidRow* row =
        vrank::cupti::RowOf(domain == CUPTI_CB_DOMAIN_DRIVER_API, cbid);
    if (row != nullptr)
      *name = row->name;
  }
  return vrank::cupti::Leave(*name == nullptr ? CUPTI_ERROR_INVALID_PARAMETER
                                              : CUPTI_SUCCESS);
}
