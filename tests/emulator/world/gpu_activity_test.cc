// Random work on several lanes, against a count of every nanosecond.

#include "emulator/world/gpu_activity.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using graph::Op;
using graph::OpKind;
using graph::Stamp;
using graph::WorkClass;

constexpr int64_t kEnd = 400;

struct Work {
  Op op;
  int64_t begin_ns = 0, end_ns = 0;
};

Op Collective() {
  return Op{.kind = OpKind::kCollective};
}
Op Kernel(graph::Program* program, const char* name) {
  return Op{
      .kind = OpKind::kWork, .work = WorkClass::kKernel, .a = program->AddName(name)};
}
Op Copy(graph::Program* program) {
  return Op{.kind = OpKind::kWork,
            .work = WorkClass::kCopy,
            .a = program->AddName("memcpy HtoD")};
}

class GpuActivityTest : public ::testing::Test {
 protected:
  void Pass(const Work& work) {
    program_.Append(work.op);
    activity_.OnOpPassed(0, program_.size() - 1, Stamp{}, Stamp{});
  }
  void End(uint64_t op, const Work& work) {
    activity_.OnOpEnded(0, op, Stamp{.ns = work.begin_ns}, Stamp{.ns = work.end_ns});
  }
  void Add(const Work& work) {
    Pass(work);
    End(program_.size() - 1, work);
  }

  graph::Program program_{true};
  GpuActivity activity_{&program_};
};

TEST_F(GpuActivityTest, ALostOverlapIsExposedCommunication) {
  const Op kernel = Kernel(&program_, "gemm");
  Add({kernel, 0, 100});
  Add({Collective(), 40, 90});
  Add({Collective(), 100, 150});
  Add({kernel, 150, 200});
  const auto time = activity_.Between(0, 210);
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->compute_ns, 150);
  EXPECT_EQ(time->overlapped_communication_ns, 50);
  EXPECT_EQ(time->exposed_communication_ns, 50);
  EXPECT_EQ(time->copies_ns, 0);
  EXPECT_EQ(time->idle_ns, 10);
}

TEST_F(GpuActivityTest, AKernelThatCommunicatesDoesNotCompute) {
  Add({Kernel(&program_, "multimem_all_reduce_kernel"), 0, 30});
  Add({Kernel(&program_, "elementwise"), 30, 40});
  const auto time = activity_.Between(0, 40);
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->exposed_communication_ns, 30);
  EXPECT_EQ(time->compute_ns, 10);
}

TEST_F(GpuActivityTest, WhatIsDroppedIsNotReported) {
  const Op kernel = Kernel(&program_, "k");
  const auto count = static_cast<int64_t>(GpuActivity::kMostSpans) + 10;
  for (int64_t i = 0; i < count; ++i)
    Add({kernel, 2 * i, 2 * i + 1});
  EXPECT_FALSE(activity_.Between(0, 2 * count).has_value());
  const auto kept = activity_.Between(40, 2 * count);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->compute_ns, count - 20);
}

TEST_F(GpuActivityTest, EveryNanosecondIsOneThing) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](int64_t limit) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
    };
    graph::Program program(true);
    GpuActivity activity(&program);
    const std::vector<Op> kinds = {Kernel(&program, "k"), Collective(), Copy(&program)};
    std::vector<Work> works;
    std::vector<int64_t> free_at(4);
    for (int i = 0; i < 40; ++i) {
      Work work{kinds[static_cast<size_t>(below(3))], 0, 0};
      work.op.lane = static_cast<uint32_t>(below(4));
      work.begin_ns = free_at[work.op.lane] + below(3) * below(20);
      work.end_ns = free_at[work.op.lane] = work.begin_ns + below(30);
      works.push_back(work);
      program.Append(work.op);
    }
    // Some end before the host has passed them, others long after.
    std::vector<uint64_t> late;
    for (uint64_t op = 0; op < works.size(); ++op) {
      const int64_t when = below(3);
      const auto end = [&](uint64_t index) {
        activity.OnOpEnded(0, index, Stamp{.ns = works[index].begin_ns},
                           Stamp{.ns = works[index].end_ns});
      };
      if (when == 0)
        end(op);
      activity.OnOpPassed(0, op, Stamp{}, Stamp{});
      if (when == 1)
        end(op);
      else if (when == 2)
        late.push_back(op);
      if (late.size() > 5) {
        end(late.front());
        late.erase(late.begin());
      }
    }
    for (const uint64_t op : late)
      activity.OnOpEnded(0, op, Stamp{.ns = works[op].begin_ns},
                         Stamp{.ns = works[op].end_ns});
    const int64_t begin = below(kEnd), end = begin + below(kEnd);
    GpuTime expected;
    for (int64_t ns = begin; ns < end; ++ns) {
      const auto any = [&](auto is) {
        return std::any_of(works.begin(), works.end(), [&](const Work& work) {
          return work.begin_ns <= ns && ns < work.end_ns && is(work.op);
        });
      };
      const bool computes = any([](const Op& op) {
        return op.kind == OpKind::kWork && op.work == WorkClass::kKernel;
      });
      const bool communicates =
          any([](const Op& op) { return op.kind == OpKind::kCollective; });
      const bool copies = any([](const Op& op) { return op.work == WorkClass::kCopy; });
      expected.compute_ns += computes ? 1 : 0;
      expected.overlapped_communication_ns += computes && communicates ? 1 : 0;
      expected.exposed_communication_ns += !computes && communicates ? 1 : 0;
      expected.copies_ns += !computes && !communicates && copies ? 1 : 0;
      expected.idle_ns += !computes && !communicates && !copies ? 1 : 0;
    }
    const auto time = activity.Between(begin, end);
    ASSERT_TRUE(time.has_value());
    EXPECT_EQ(time->compute_ns, expected.compute_ns) << seed;
    EXPECT_EQ(time->overlapped_communication_ns, expected.overlapped_communication_ns);
    EXPECT_EQ(time->exposed_communication_ns, expected.exposed_communication_ns);
    EXPECT_EQ(time->copies_ns, expected.copies_ns);
    EXPECT_EQ(time->idle_ns, expected.idle_ns);
  }
}

}  // namespace
}  // namespace vrank::emulator
