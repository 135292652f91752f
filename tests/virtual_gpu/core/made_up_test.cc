// Bytes that stand for what no kernel has computed: where they go and what follows from
// them, it is counted when the host reads it, with the kernel and the reason.

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/virtual_gpu/core/fake_channel.h"
#include "tests/virtual_gpu/core/interpreted_kernel.h"
#include "virtual_gpu/code/cubin.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/kernel_code.h"
#include "virtual_gpu/core/kernel_effects.h"

namespace vrank::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kElements = 8;
constexpr uint64_t kBytes = kElements * sizeof(int);

class MadeUpTest : public testing::Test {
 protected:
  MadeUpTest() {
    auto memory = std::make_unique<DeviceMemory>(0, uint64_t{1} << 30);
    memory_ = memory.get();
    contents_.AddDevice(std::move(memory));
  }

  KernelCode* Kernel(const char* name) {
    kernels_.emplace_back(MakeKernel(name));
    KernelCode* const kernel = kernels_.back().get();
    SetMachineCode(name, kernel);
    return kernel;
  }

  uint64_t New() {
    Allocation* const made = memory_->Allocate(kBytes, protocol::MemoryOwner::kProgram);
    contents_.Begin(made);
    return made->base;
  }
  uint64_t Known(int first, const char* made_up_by = "") {
    std::vector<int> values;
    for (int i = 0; i < kElements; ++i)
      values.push_back(first + i);
    const uint64_t address = New();
    EXPECT_TRUE(contents_.StoreBytes(address, values.data(), kBytes, made_up_by));
    return address;
  }
  uint64_t Chosen(int first) {
    return Known(first, contents_.NameWriter("choose", "made up: chosen"));
  }
  uint64_t Unknown(const char* writer) {
    const uint64_t address = New();
    contents_.Write(address, kBytes, Origin::Computed(writer));
    return address;
  }

  void Launch(KernelCode* kernel, void** arguments, uint32_t threads = 32) {
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.block[0] = threads;
    launch.arguments = arguments;
    EXPECT_TRUE(effects_.Apply(launch));
  }
  uint64_t AddOne(KernelCode* kernel, uint64_t in) {
    struct {
      uint64_t before, in, behind, out;
    } pointers = {0, in, 0, New()};
    int count = kElements;
    void* arguments[] = {&pointers, &count};
    Launch(kernel, arguments);
    return pointers.out;
  }

  std::vector<int> Read(uint64_t address) {
    std::vector<int> values(kElements);
    std::vector<Landing> landings;
    channel_.Clear();
    contents_.Deliver(address, kBytes, reinterpret_cast<unsigned char*>(values.data()),
                      &landings);
    return values;
  }
  // Of the losses since the last Read.
  std::vector<std::string> Lost() const {
    std::vector<std::string> lost;
    for (const FakeChannel::Written& record : channel_.records())
      if (record.kind == protocol::RecordKind::kLoss) {
        const auto loss = record.as<protocol::Loss>();
        lost.push_back(channel_.NameOf(loss.name) + " " + std::to_string(loss.amount));
      }
    return lost;
  }
  // A number of so many bytes goes to the host.
  void ReadNumber(const char* writer, uint64_t bytes) {
    unsigned char number[8];
    std::vector<Landing> landings;
    contents_.Deliver(Unknown(writer), bytes, number, &landings);
  }

  FakeChannel channel_;
  Contents contents_{&channel_};
  Obligations obligations_{&channel_, [](unsigned char*, uint64_t) {}};
  KernelEffects effects_{&channel_, contents_, obligations_};
  DeviceMemory* memory_ = nullptr;
  std::vector<std::unique_ptr<KernelCode>> kernels_;
};

TEST_F(MadeUpTest, IsCountedWhereverItIsCopied) {
  const uint64_t copy = New(), chosen = Chosen(5);
  ASSERT_TRUE(contents_.CopyWithin(copy, chosen, kBytes));
  EXPECT_EQ(Read(copy), (std::vector<int>{5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_THAT(Lost(), ElementsAre("choose: made up: chosen 32"));
  EXPECT_EQ(Read(Known(5)).front(), 5);
  EXPECT_THAT(Lost(), IsEmpty());
  ASSERT_TRUE(contents_.CopyWithin(copy, Known(1), kBytes / 2));
  EXPECT_EQ(Read(copy), (std::vector<int>{1, 2, 3, 4, 9, 10, 11, 12}));
  EXPECT_THAT(Lost(), ElementsAre("choose: made up: chosen 16"));
}

TEST_F(MadeUpTest, SoIsWhatKernelsComputeFromIt) {
  KernelCode* const adds_one = Kernel("adds_one");
  const uint64_t first = AddOne(adds_one, Chosen(5));
  EXPECT_EQ(Read(first).front(), 6);
  EXPECT_THAT(Lost(), ElementsAre("adds_one: made up: its input, from choose: made up: "
                                  "chosen 32"));
  EXPECT_EQ(Read(AddOne(adds_one, first)).front(), 7);
  EXPECT_THAT(Lost(), ElementsAre("adds_one: made up: its input, from choose: made up: "
                                  "chosen 32"));
  EXPECT_EQ(Read(AddOne(adds_one, Known(5))).front(), 6);
  EXPECT_THAT(Lost(), IsEmpty());
}

// A GPU might have chosen what does not fail.
TEST_F(MadeUpTest, FailsNoAssertion) {
  uint64_t at = Chosen(5), out = New();
  int n = 6;
  void* arguments[] = {&at, &out, &n};
  Launch(Kernel("looks_up"), arguments, kElements);
  at = Known(5);
  KernelLaunch launch;
  launch.kernel = kernels_.back().get();
  launch.block[0] = kElements;
  launch.arguments = arguments;
  EXPECT_FALSE(effects_.Apply(launch));
  EXPECT_THAT(effects_.TakeAssertion(), ::testing::HasSubstr("Assertion `at[i] < n`"));
}

// Another choice would have left another place as it was.
TEST_F(MadeUpTest, SoIsWhatKernelsLeaveForIt) {
  uint64_t at = Chosen(2), out = Known(20);
  void* arguments[] = {&at, &out};
  KernelCode* const marks = Kernel("marks");
  Launch(marks, arguments);
  EXPECT_EQ(Read(out), (std::vector<int>{20, 21, 1, 23, 24, 25, 26, 27}));
  EXPECT_THAT(Lost(), ElementsAre("marks: made up: its input, from choose: made up: "
                                  "chosen 32"));
  at = Known(2), out = Known(20);
  Launch(marks, arguments);
  EXPECT_EQ(Read(out), (std::vector<int>{20, 21, 1, 23, 24, 25, 26, 27}));
  EXPECT_THAT(Lost(), IsEmpty());
}

// Of launches of one kernel each has its own cause, whichever is read last.
TEST_F(MadeUpTest, AReasonIsThatOfTheLaunchThatWrote) {
  KernelCode* const adds_one = Kernel("adds_one");
  const uint64_t first = AddOne(adds_one, Unknown("one")),
                 second = AddOne(adds_one, Unknown("another")),
                 third = AddOne(adds_one, Unknown("one")),
                 fourth = AddOne(adds_one, second);
  const auto from = [](const char* writer) {
    return std::string("adds_one: unknown: its input, from ") + writer + " 32";
  };
  Read(first);
  EXPECT_THAT(Lost(), ElementsAre(from("one")));
  Read(second);
  EXPECT_THAT(Lost(), ElementsAre(from("another")));
  Read(third);
  EXPECT_THAT(Lost(), ElementsAre(from("one")));
  Read(fourth);
  EXPECT_THAT(Lost(), ElementsAre(from("another")));
}

TEST_F(MadeUpTest, NumbersThatAreReadBeforeMoreWorkMayDecideIt) {
  constexpr char kCount[] =
      "_ZN14at_cuda_detail3cub6detail6reduce28DeviceReduceSingleTileKernelIiEEvT_";
  constexpr char kSum[] =
      "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIlEEEEvT_";
  constexpr char kMean[] =
      "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIdEEEEvT_";
  constexpr char kIsNan[] =
      "_ZN2at6native13BinaryFunctorIffbNS0_12_GLOBAL__N_116CompareEqFunctorIfEEEE";
  const auto sizes = [&] { return channel_.Lost(LossId::kUnknownSizes); };
  const auto conditions = [&] { return channel_.Lost(LossId::kUnknownDecisions); };
  ReadNumber(kCount, 8);
  EXPECT_EQ(sizes(), 0u);
  contents_.NoteWork();
  EXPECT_EQ(sizes(), 1u);
  contents_.NoteWork();
  EXPECT_EQ(sizes(), 1u);
  ReadNumber(kSum, 8);
  ReadNumber(kSum, 1);
  contents_.NoteWork();
  EXPECT_EQ(conditions(), 2u);
  // As training loops log them.
  ReadNumber(kSum, 4);
  ReadNumber(kMean, 8);
  ReadNumber(kIsNan, 1);
  contents_.NoteWork();
  EXPECT_EQ(conditions(), 2u);
  EXPECT_EQ(sizes(), 1u);
}

}  // namespace
}  // namespace vrank::gpu
