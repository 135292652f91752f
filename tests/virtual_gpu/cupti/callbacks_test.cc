// libcupti: the callback API.

#include <cstring>
#include <string>

#include "tests/virtual_gpu/cupti/cupti_fixture.h"

namespace vrank::cupti {
namespace {

struct Seen {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId cbid;
  CUpti_CallbackData api;  // of the driver and runtime domains
  uint64_t slot;
  int result;
};

class CuptiCallbacksTest : public CuptiTest {
 protected:
  CuptiCallbacksTest() {
    EXPECT_CUPTI(cuptiSubscribe(&subscriber_, &Callback, &seen_));
  }

  static void CUPTIAPI Callback(void* userdata, CUpti_CallbackDomain domain,
                                CUpti_CallbackId cbid, const void* data) {
    Seen seen{domain, cbid, {}, 0, -1};
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API || domain == CUPTI_CB_DOMAIN_DRIVER_API) {
      std::memcpy(&seen.api, data, sizeof seen.api);
      if (seen.api.callbackSite == CUPTI_API_ENTER)
        *seen.api.correlationData = 1000 + seen.api.correlationId;
      else
        seen.result = *static_cast<int*>(seen.api.functionReturnValue);
      seen.slot = *seen.api.correlationData;
    }
    static_cast<std::vector<Seen>*>(userdata)->push_back(seen);
    // A CUDA call within the callback causes no further one.
    Enter("cudaMalloc", 99);
    Exit("cudaMalloc", 99);
  }

  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<Seen> seen_;
};

TEST_F(CuptiCallbacksTest, TakesOneSubscriberAndNamesIt) {
  CUpti_SubscriberHandle other = nullptr;
  EXPECT_EQ(cuptiSubscribe(&other, &Callback, nullptr),
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_CUPTI(cuptiUnsubscribe(subscriber_));
  EXPECT_EQ(cuptiUnsubscribe(subscriber_), CUPTI_ERROR_INVALID_PARAMETER);
  CUpti_SubscriberParams mine{};
  mine.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  mine.subscriberName = "a tracer";
  EXPECT_CUPTI(cuptiSubscribe_v2(&subscriber_, &Callback, nullptr, &mine));
  char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
  CUpti_SubscriberParams theirs{};
  theirs.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  theirs.oldSubscriberName = name;
  theirs.oldSubscriberSize = sizeof name;
  EXPECT_EQ(cuptiSubscribe_v2(&other, &Callback, nullptr, &theirs),
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_STREQ(name, "CUPTI for a tracer");
  theirs.structSize = 8;
  EXPECT_EQ(cuptiSubscribe_v2(&other, &Callback, nullptr, &theirs),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiSubscribe(nullptr, &Callback, nullptr), CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(CuptiCallbacksTest, EnclosesACall) {
  constexpr auto kCbid = CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020;
  EXPECT_EQ(TheActivity().listener, nullptr) << "nothing is enabled";
  EXPECT_CUPTI(cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API, kCbid));
  cudaMalloc_v3020_params parameters{};
  Enter("cudaMalloc", 1, false, &parameters);
  Enter("cuMemAlloc_v2", 2, true);
  Exit("cuMemAlloc_v2", 2, true);
  Exit("cudaMalloc", 1, false, &parameters, 2);
  ASSERT_EQ(seen_.size(), 2u);
  for (const Seen& seen : seen_) {
    EXPECT_EQ(seen.domain, CUPTI_CB_DOMAIN_RUNTIME_API);
    EXPECT_EQ(seen.cbid, kCbid);
    EXPECT_STREQ(seen.api.functionName, "cudaMalloc");
    EXPECT_EQ(seen.api.functionParams, &parameters);
    EXPECT_EQ(seen.api.correlationId, Id(1));
    EXPECT_EQ(seen.slot, 1000 + Id(1)) << "carried from entry to exit";
    EXPECT_NE(seen.api.context, nullptr);
  }
  EXPECT_EQ(seen_[0].api.callbackSite, CUPTI_API_ENTER);
  EXPECT_EQ(seen_[1].api.callbackSite, CUPTI_API_EXIT);
  EXPECT_EQ(seen_[1].result, 2);
  EXPECT_CUPTI(cuptiEnableCallback(0, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API, kCbid));
  EXPECT_EQ(TheActivity().listener, nullptr);
}

TEST_F(CuptiCallbacksTest, KnowsItsState) {
  uint32_t enabled = 9;
  EXPECT_CUPTI(cuptiGetCallbackState(&enabled, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API,
                                     CUPTI_DRIVER_TRACE_CBID_cuInit));
  EXPECT_EQ(enabled, 0u);
  EXPECT_CUPTI(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API));
  EXPECT_CUPTI(cuptiGetCallbackState(&enabled, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API,
                                     CUPTI_DRIVER_TRACE_CBID_cuInit));
  EXPECT_EQ(enabled, 1u);
  EXPECT_CUPTI(cuptiEnableAllDomains(0, subscriber_));
  EXPECT_EQ(TheActivity().listener, nullptr);
  EXPECT_EQ(cuptiGetCallbackState(&enabled, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, 0),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API, 100'000),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiEnableCallback(1, nullptr, CUPTI_CB_DOMAIN_RUNTIME_API, 1),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_NVTX),
            CUPTI_ERROR_INVALID_PARAMETER)
      << "not modelled";
  size_t count = 0;
  CUpti_DomainTable table = nullptr;
  EXPECT_CUPTI(cuptiSupportedDomains(&count, &table));
  for (size_t i = 0; i < count; ++i)
    EXPECT_CUPTI(cuptiEnableDomain(1, subscriber_, table[i])) << table[i];
}

TEST_F(CuptiCallbacksTest, TellsOfStreamsContextsAndWaits) {
  EXPECT_CUPTI(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE));
  EXPECT_CUPTI(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_SYNCHRONIZE));
  int stream_object = 0;
  gpu::ActivityStream stream;
  stream.stream = 13;
  Listener().OnContextNow(2, reinterpret_cast<void*>(uintptr_t{2}), true);
  Listener().OnStreamNow(stream, &stream_object);
  uint32_t id = 0;
  EXPECT_CUPTI(
      cuptiGetStreamIdEx(nullptr, reinterpret_cast<CUstream>(&stream_object), 0, &id));
  EXPECT_EQ(id, 13u);
  Exit("cudaDeviceSynchronize", 2, false, nullptr, 700);  // failed
  Exit("cudaDeviceSynchronize", 3);
  stream.destroyed = true;
  Listener().OnStreamNow(stream, &stream_object);
  EXPECT_EQ(
      cuptiGetStreamIdEx(nullptr, reinterpret_cast<CUstream>(&stream_object), 0, &id),
      CUPTI_ERROR_INVALID_STREAM);
  Listener().OnContextNow(2, reinterpret_cast<void*>(uintptr_t{2}), false);
  std::vector<std::pair<int, uint32_t>> got;
  for (const Seen& seen : seen_)
    got.emplace_back(seen.domain, seen.cbid);
  using ::testing::Pair;
  EXPECT_THAT(
      got,
      ::testing::ElementsAre(
          Pair(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED),
          Pair(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED),
          Pair(CUPTI_CB_DOMAIN_SYNCHRONIZE,
               CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED),
          Pair(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING),
          Pair(CUPTI_CB_DOMAIN_RESOURCE,
               CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)));
}

TEST_F(CuptiCallbacksTest, TellsOfGraphsAndNumbersThem) {
  using What = gpu::ActivityGraph::What;
  EXPECT_CUPTI(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE));
  int original = 0, node = 0, exec = 0;
  gpu::ActivityGraph graph;
  graph.node = &original;
  graph.node_id = 7;
  Listener().OnGraphNow(graph);
  graph = {.what = What::kNodeCloned,
           .node = &node,
           .node_id = 8,
           .original_node = &original,
           .exec = &exec,
           .exec_id = 3};
  Listener().OnGraphNow(graph);
  graph.what = What::kExecCreated;
  Listener().OnGraphNow(graph);
  uint64_t node_id = 0;
  uint32_t exec_id = 0;
  const auto node_handle = reinterpret_cast<CUgraphNode>(&node);
  const auto exec_handle = reinterpret_cast<CUgraphExec>(&exec);
  EXPECT_CUPTI(cuptiGetGraphNodeId(node_handle, &node_id));
  EXPECT_EQ(node_id, 8u);
  EXPECT_CUPTI(cuptiGetGraphExecId(exec_handle, &exec_id));
  EXPECT_EQ(exec_id, 3u);
  EXPECT_EQ(cuptiGetGraphNodeId(nullptr, &node_id), CUPTI_ERROR_INVALID_PARAMETER);
  graph.what = What::kExecDestroyed;
  Listener().OnGraphNow(graph);
  EXPECT_EQ(cuptiGetGraphExecId(exec_handle, &exec_id), CUPTI_ERROR_INVALID_PARAMETER);
  std::vector<uint32_t> got;
  for (const Seen& seen : seen_)
    got.push_back(seen.cbid);
  EXPECT_THAT(got,
              ::testing::ElementsAre(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                     CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
                                     CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
                                     CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING));
}

TEST_F(CuptiCallbacksTest, RefusesWhatTheVirtualGpuDoesNotTell) {
  EXPECT_EQ(cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE,
                                CUPTI_CBID_RESOURCE_GRAPH_CLONED),
            CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_SYNCHRONIZE,
                                CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED),
            CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE,
                                CUPTI_CBID_RESOURCE_MODULE_LOADED),
            CUPTI_ERROR_NOT_SUPPORTED);
}

// What existed before is known, but no news.
TEST_F(CuptiCallbacksTest, LearnsWhatExistedWhenItAttached) {
  static int stream_object;
  TheActivity().introduce = [](gpu::ActivityListener* listener) {
    gpu::ActivityStream stream;
    stream.stream = 14;
    listener->OnContextNow(1, reinterpret_cast<void*>(uintptr_t{1}), true);
    listener->OnStreamNow(stream, &stream_object);
    listener->OnStream(stream);
  };
  RegisterBuffers();
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_STREAM));
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONTEXT));
  EXPECT_CUPTI(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE));
  EXPECT_TRUE(seen_.empty());
  EXPECT_TRUE(Records().empty());
  EXPECT_CUPTI(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_STREAM));
  auto streams = RecordsAs<CUpti_ActivityStream>(CUPTI_ACTIVITY_KIND_STREAM);
  ASSERT_EQ(streams.size(), 1u);
  EXPECT_EQ(streams[0]->streamId, 14u);
  Listener().OnStreamNow({.stream = 14, .destroyed = true}, &stream_object);
}

TEST_F(CuptiCallbacksTest, IsSilentAfterUnsubscribing) {
  EXPECT_CUPTI(cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API));
  EXPECT_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));  // goes on listening
  EXPECT_CUPTI(cuptiUnsubscribe(subscriber_));
  Enter("cudaMalloc", 1);
  Exit("cudaMalloc", 1);
  EXPECT_TRUE(seen_.empty());
}

TEST_F(CuptiTest, NamesCallbacksAsTheHeadersDo) {
  const char* name = nullptr;
  EXPECT_CUPTI(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API,
                                    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
                                    &name));
  EXPECT_STREQ(name, "cudaLaunchKernel_v7000");
  EXPECT_CUPTI(cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API,
                                    CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &name));
  EXPECT_STREQ(name, "cuMemAlloc_v2");
  EXPECT_EQ(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, 0, &name),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(name, nullptr);
  EXPECT_EQ(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RESOURCE, 1, &name),
            CUPTI_ERROR_INVALID_PARAMETER);
}

}  // namespace
}  // namespace vrank::cupti
