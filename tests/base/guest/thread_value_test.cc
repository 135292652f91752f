#include "base/guest/thread_value.h"

#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

namespace vrank {
namespace {

struct Counted {
  static inline int destroyed = 0;
  int number = 0;
  ~Counted() { ++destroyed; }
};

TEST(ThreadValueTest, IsOfItsThreadAndEndsWithIt) {
  ThreadValue<Counted>::Mine().number = 1;
  const int before = Counted::destroyed;
  std::thread([] {
    EXPECT_EQ(ThreadValue<Counted>::Mine().number, 0);
    ThreadValue<Counted>::Mine().number = 2;
  }).join();
  EXPECT_EQ(Counted::destroyed, before + 1);
  EXPECT_EQ(ThreadValue<Counted>::Mine().number, 1);
}

struct OfMain {
  static inline bool destroyed = false;
  int number = 0;
  ~OfMain() { destroyed = true; }
};

// As the exit handlers of a library do, which run after thread_local objects of the
// thread that exits were destroyed.
TEST(ThreadValueDeathTest, IsThereInExitHandlers) {
  const auto ends = [] {
    ThreadValue<OfMain>::Mine().number = 3;
    std::atexit([] {
      const bool kept = !OfMain::destroyed && ThreadValue<OfMain>::Mine().number == 3;
      _Exit(kept ? 7 : 8);
    });
    std::exit(0);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace vrank
