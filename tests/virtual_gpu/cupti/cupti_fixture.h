// libcupti in a test program, over an activity source that the test plays itself.
//
// The library looks for the virtual GPU once, so there is one of everything per
// program; each test begins with a detached CUPTI (cuptiFinalize).
//
// Thread rule: one test at a time.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CUPTI_CUPTI_FIXTURE_H_
#define VRANK_TESTS_VIRTUAL_GPU_CUPTI_CUPTI_FIXTURE_H_

#include <cupti.h>

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "virtual_gpu/core/activity.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::cupti {

// Remembers who listens; the test reports through `listener`.
class FakeActivity final : public gpu::Activity {
 public:
  void SetListener(gpu::ActivityListener* listener) override {
    this->listener = listener;
    if (listener != nullptr && introduce != nullptr)
      introduce(listener);
  }
  void Flush(bool wait_for_work) override { flushes.push_back(wait_for_work); }
  void PushExternalId(uint32_t kind, uint64_t id) override { ids[kind].push_back(id); }
  bool PopExternalId(uint32_t kind, uint64_t* id) override {
    if (ids[kind].empty())
      return false;
    *id = ids[kind].back();
    ids[kind].pop_back();
    return true;
  }
  int64_t Now() override { return now_ns; }

  gpu::ActivityListener* listener = nullptr;
  void (*introduce)(gpu::ActivityListener* listener) = nullptr;
  std::vector<bool> flushes;
  std::map<uint32_t, std::vector<uint64_t>> ids;
  int64_t now_ns = 1'000;
};

FakeActivity& TheActivity();
gpu::ProcessGpu& TheGpu();
const protocol::Settings& TheSettings();

// What the client's callbacks do with buffers.
struct Client {
  size_t buffer_bytes = 4096;
  size_t max_records = 0;
  size_t misalign = 0;  // bytes by which a buffer starts off an 8-byte boundary
  int decline = 0;      // so many requests are answered with no buffer
  // Delivered buffers, as bytes that were valid.
  std::vector<std::vector<uint8_t>> delivered;
  size_t requests = 0;
  void (*on_complete)() = nullptr;
};
Client& TheClient();

class CuptiTest : public ::testing::Test {
 protected:
  CuptiTest();
  ~CuptiTest() override;

  static void RegisterBuffers();
  // All records of delivered buffers, after a flush.
  static std::vector<const CUpti_Activity*> Records();
  template <typename Record>
  static std::vector<const Record*> RecordsAs(CUpti_ActivityKind kind) {
    std::vector<const Record*> found;
    for (const CUpti_Activity* record : Records())
      if (record->kind == kind)
        found.push_back(reinterpret_cast<const Record*>(record));
    return found;
  }

  // The number of the test's n-th call: calls are counted per process, not per test.
  static uint32_t Id(uint32_t n);
  // The program makes its n-th call of a function, and the virtual GPU reports it.
  static void Enter(const char* function, uint32_t n, bool is_driver = false,
                    const void* parameters = nullptr);
  static void Exit(const char* function, uint32_t n, bool is_driver = false,
                   const void* parameters = nullptr, int32_t result = 0);
  static void Report(const char* function, uint32_t n, int64_t start_ns = 10,
                     int64_t end_ns = 20, bool is_driver = false);
  static gpu::ActivityListener& Listener() { return *TheActivity().listener; }
  // A time of the virtual GPU on CUPTI's clock.
  static uint64_t Stamp(int64_t time_ns) {
    return static_cast<uint64_t>(TheSettings().realtime_at_start_ns + time_ns);
  }
};

#define EXPECT_CUPTI(call) EXPECT_EQ(call, CUPTI_SUCCESS)

}  // namespace vrank::cupti

#endif  // VRANK_TESTS_VIRTUAL_GPU_CUPTI_CUPTI_FIXTURE_H_
