// A tracer on a CUPTI whose records the test knows.

#ifndef VRANK_TESTS_TRACER_CUPTI_SESSION_FIXTURE_H_
#define VRANK_TESTS_TRACER_CUPTI_SESSION_FIXTURE_H_

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "graph/trace/trace_file.h"
#include "tests/tracer/fake_cupti.h"
#include "tracer/tracer.h"

namespace vrank::tracer {

class CuptiSessionTest : public ::testing::Test {
 protected:
  CuptiSessionTest() {
    void* library = dlopen(VRANK_FAKE_CUPTI, RTLD_NOW);
    fake = reinterpret_cast<FakeCupti* (*)()>(dlsym(library, "vrank_fake_cupti"))();
    *fake = FakeCupti();
    // Tests run at the same time, each in a process of its own.
    path = ::testing::TempDir() + "session_" + std::to_string(getpid()) + ".vtrace";
    std::filesystem::remove(path);
  }
  ~CuptiSessionTest() override { std::filesystem::remove(path); }

  void MakeContext() {
    const CUpti_ResourceData context{};
    fake->callback(fake->user, CUPTI_CB_DOMAIN_RESOURCE,
                   CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &context);
  }

  // Starts, makes a context, runs `body`, ends; what the trace says then.
  template <typename Body>
  graph::RankTrace Trace(Body body) {
    EXPECT_TRUE(tracer.Start({.file = path, .cupti = VRANK_FAKE_CUPTI}));
    MakeContext();
    body();
    tracer.Finish();
    auto trace = graph::ReadTrace(path);
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.ok() ? *std::move(trace) : graph::RankTrace();
  }

  FakeCupti* fake;
  std::string path;
  Tracer tracer;
};

}  // namespace vrank::tracer

#endif  // VRANK_TESTS_TRACER_CUPTI_SESSION_FIXTURE_H_
