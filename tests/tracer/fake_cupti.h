// What a test tells the fake libcupti, and what it learns from it.
//
// The fake is a shared library with CUPTI's public functions that the tracer calls. It
// delivers records that the test puts in, and remembers what was enabled.

#ifndef VRANK_TESTS_TRACER_FAKE_CUPTI_H_
#define VRANK_TESTS_TRACER_FAKE_CUPTI_H_

#include <cupti.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace vrank::tracer {

struct FakeCupti {
  uint32_t version = 130001;
  std::string other_subscriber;  // not empty: somebody else has subscribed
  std::set<CUpti_ActivityKind> refused;
  uint64_t now = 1000;    // what cuptiGetTimestamp says; 10 more each time
  size_t dropped = 0;     // told at the next flush
  bool detached = false;  // by cuptiFinalize

  std::set<CUpti_ActivityKind> enabled;
  std::set<uint32_t> runtime_off, driver_off;  // cbids
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  std::vector<uint64_t> pushed;  // external ids, innermost last

  // Records to deliver at the next flush, in order; each a multiple of 8 bytes.
  std::vector<std::string> records;

  template <typename T>
  void Deliver(const T& record) {
    records.emplace_back(reinterpret_cast<const char*>(&record), sizeof record);
  }
};

// Exported by the fake.
extern "C" FakeCupti* vrank_fake_cupti();

}  // namespace vrank::tracer

#endif  // VRANK_TESTS_TRACER_FAKE_CUPTI_H_
