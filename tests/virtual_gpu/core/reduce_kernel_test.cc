// What PyTorch's reductions compute, by their names and their one parameter. The
// structures here are written as aten/src/ATen/native/cuda/Reduce.cuh declares them.

#include "virtual_gpu/core/reduce_kernel.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

using Function = ReduceKernel::Function;

std::string Name(const std::string& operation) {
  return "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpI" + operation +
         "Li4ELi4EEEEEvT1_";
}
const std::string kSumLong = Name(
    "lNS0_14func_wrapper_tIlZNS0_11sum_functorIlllEclERNS_14TensorIteratorEEUlllE_EE"
    "jl");
const std::string kMaxByte = Name("hNS0_14func_wrapper_tIhNS0_13MaxNanFunctorIhEEEEjh");
const std::string kSumFloat = Name(
    "fNS0_14func_wrapper_tIfZNS0_11sum_functorIfffEclERNS_14TensorIteratorEEUlffE_EE"
    "jf");

struct Config {
  int element_size_bytes = 8, num_inputs = 0, num_outputs = 0, step_input = 1,
      step_output = 1, ctas_per_output = 1, input_mult[3] = {1, 0, 0},
      output_mult[2] = {}, block_width = 2, block_height = 1, num_threads = 2;
  bool vectorize_input = false;
  int output_vec_size = 1;
};
struct Divider {
  unsigned divisor = 0, m1 = 0, shift = 0;
};
template <int operands>
struct Offsets {
  int dims = 0;
  Divider sizes[25] = {};
  unsigned strides[25][operands] = {};
};
template <typename T>
struct Reduction {
  struct {
  } ops;
  T ident = 0;
  Config config;
  Offsets<1> input;
  Offsets<2> output;
  const void* src = nullptr;
  const void* dst[2] = {};
  void *acc_buf = nullptr, *cta_buf = nullptr;
  int* semaphores = nullptr;
  int64_t base_idx = 0;
  bool accumulate = false, final_output = true;
  int noutputs = 1;
};

// A matrix of rows x columns elements, reduced along its rows.
template <typename T>
Reduction<T> Rows(const void* from, const void* to, unsigned rows, unsigned columns) {
  Reduction<T> reduction;
  reduction.src = from;
  reduction.dst[0] = to;
  reduction.config.element_size_bytes = sizeof(T);
  reduction.config.num_inputs = static_cast<int>(columns);
  reduction.config.num_outputs = static_cast<int>(rows);
  reduction.input.dims = 1;
  reduction.input.sizes[0].divisor = columns;
  reduction.input.strides[0][0] = sizeof(T);
  reduction.output.dims = 1;
  reduction.output.sizes[0].divisor = rows;
  reduction.output.strides[0][0] = sizeof(T);
  reduction.output.strides[0][1] = columns * sizeof(T);
  return reduction;
}

TEST(ReduceKernelTest, TellsTheFunctionFromTheName) {
  EXPECT_EQ(ParseReduceKernel(kSumLong).function, Function::kSum);
  EXPECT_EQ(ParseReduceKernel(kSumLong).value_bytes, 8u);
  EXPECT_EQ(ParseReduceKernel(kMaxByte).function, Function::kMax);
  EXPECT_EQ(
      ParseReduceKernel(Name("sNS0_14func_wrapper_tIsNS0_13MinNanFunctorIsEEEEjs"))
          .function,
      Function::kMin);
  const std::string logical =
      "_kernel_cudaERNS_14TensorIteratorEENKUlvE_clEvENKUlvE10_clEvEUlbbE_EEjb";
  EXPECT_EQ(
      ParseReduceKernel(Name("bNS0_14func_wrapper_tIbZZZNS0_14or" + logical)).function,
      Function::kAny);
  EXPECT_EQ(
      ParseReduceKernel(Name("bNS0_14func_wrapper_tIbZZZNS0_15and" + logical)).function,
      Function::kAll);
  // The sum of truth values is one, too.
  EXPECT_EQ(ParseReduceKernel(Name("bNS0_14func_wrapper_tIbZNS0_11sum_functorIbbbEcl"))
                .function,
            Function::kAny);
}

TEST(ReduceKernelTest, LeavesOtherFunctionsUnknown) {
  // Numbers whose sum depends on the order; results of another type than the elements;
  // an operation with a state; what else a name may hold.
  for (const std::string& name :
       {kSumFloat, Name("iNS0_14func_wrapper_tIlZNS0_11sum_functorIiilEclERNS_"),
        Name("lNS0_9ArgMaxOpsIlEEjl"), Name("lNS0_7MeanOpsIllllEEjl"),
        Name("N3c108BFloat16ENS0_14func_wrapper_tIS4_NS0_13MaxNanFunctorIS4_EEEE"),
        Name("l"), Name("lNS0_14func_wrapper_tIl"), Name("")}) {
    EXPECT_EQ(ParseReduceKernel(name).function, Function::kUnknown) << name;
    EXPECT_EQ(ParseReduceKernel(name).value_bytes, 0u) << name;
  }
  EXPECT_EQ(ParseReduceKernel("_Z13reduce_kernelPl").function, Function::kNone);
}

TEST(ReduceKernelTest, TellsWhatIsChosen) {
  using Choice = ReduceKernel::Choice;
  const auto parsed = [](const char* rest) {
    return ParseReduceKernel(
        std::string("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpI") + rest);
  };
  EXPECT_EQ(parsed("fNS0_9ArgMaxOpsIfEEjlLi4ELi4EEEEEvT1_").choice, Choice::kPlace);
  EXPECT_EQ(parsed("N3c108BFloat16ENS0_9ArgMinOpsIfEEjlLi4ELi4EEEEEvT1_").choice,
            Choice::kPlace);
  const ReduceKernel half = parsed("N3c104HalfENS0_6MaxOpsIS4_EEjS4_Li4ELi4EEEEEvT1_");
  EXPECT_EQ(half.choice, Choice::kValueAndPlace);
  EXPECT_EQ(half.type, 'H');
  EXPECT_EQ(half.value_bytes, 2u);
  EXPECT_EQ(half.function, ReduceKernel::Function::kUnknown);
  // Places of integers are computed; sums choose nothing.
  EXPECT_EQ(parsed("lNS0_9ArgMaxOpsIlEEjlLi4ELi4EEEEEvT1_").choice, Choice::kNone);
  EXPECT_EQ(parsed("fNS0_9MinMaxOpsIffiEEjfLi4ELi4EEEEEvT1_").choice, Choice::kNone);
}

TEST(ReduceKernelTest, ReadsOnlyStructuresThatTheLaunchGoesWith) {
  Reduction<int64_t> reduction = Rows<int64_t>(nullptr, nullptr, 3, 4);
  uint32_t grid[3] = {3, 1, 1}, block[3] = {2, 1, 1};
  const auto read = [&] {
    return ReadReduction(reinterpret_cast<const unsigned char*>(&reduction),
                         sizeof reduction, grid, block);
  };
  ASSERT_TRUE(read().has_value());
  EXPECT_EQ(read()->InputSpan(), (3 * 4 - 1) * 8u);
  EXPECT_EQ(read()->OutputSpan(), 2 * 8u);
  block[0] = 4;
  EXPECT_FALSE(read().has_value());
  block[0] = 2;
  grid[1] = 2;
  EXPECT_FALSE(read().has_value());
  grid[1] = 1;
  reduction.input.sizes[0].divisor = 5;
  EXPECT_FALSE(read().has_value());
  reduction.input.sizes[0].divisor = 4;
  reduction.output.dims = 26;
  EXPECT_FALSE(read().has_value());
  EXPECT_FALSE(ReadReduction(reinterpret_cast<const unsigned char*>(&reduction), 900,
                             grid, block)
                   .has_value());
}

class ReduceValuesTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    device_ = static_cast<char*>(NewMemory(1 << 20));
  }
  template <typename T>
  Error Launch(const std::string& name, Reduction<T> reduction) {
    static_assert(std::is_standard_layout_v<Reduction<T>>);
    void* arguments[] = {&reduction};
    KernelLaunch launch;
    launch.kernel = gpu->FindKernel(name.c_str());
    KernelSignature& signature = launch.kernel->signature;
    signature.complete = true;
    signature.count = signature.known = 1;
    signature.bytes = sizeof reduction;
    signature.parameters = {{0, sizeof reduction, ParameterKind::kStruct, false}};
    launch.arguments = arguments;
    launch.block[0] = 2;
    launch.grid[1] = static_cast<uint32_t>(reduction.config.ctas_per_output);
    return gpu->LaunchKernel(launch);
  }
  template <typename T>
  void Put(uint64_t at, const std::vector<T>& values) {
    ASSERT_EQ(CopyBytes(device_ + at, values.data(), values.size() * sizeof(T)),
              Error::kSuccess);
  }
  template <typename T>
  std::vector<T> Get(uint64_t at, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(CopyBytes(values.data(), device_ + at, count * sizeof(T)),
              Error::kSuccess);
    return values;
  }
  uint64_t Lost() { return channel.Lost(LossId::kComputedToHost); }
  char* device_ = nullptr;
};

TEST_F(ReduceValuesTest, SumsRowsAndKeepsAllElse) {
  Put<int64_t>(0, {1, 2, 3, -10, 20, 30});
  Put<int64_t>(512, {0, 0, 77});
  ASSERT_EQ(Launch(kSumLong, Rows<int64_t>(device_, device_ + 512, 2, 3)),
            Error::kSuccess);
  EXPECT_THAT(Get<int64_t>(512, 3), ::testing::ElementsAre(6, 40, 77));
  EXPECT_THAT(Get<int64_t>(0, 6), ::testing::ElementsAre(1, 2, 3, -10, 20, 30));
  EXPECT_EQ(Lost(), 0u);
}

TEST_F(ReduceValuesTest, SumsColumnsByTheirStrides) {
  Put<int64_t>(0, {1, 2, 3, -10, 20, 30});
  Reduction<int64_t> reduction = Rows<int64_t>(device_, device_ + 512, 3, 2);
  reduction.input.strides[0][0] = 3 * 8;
  reduction.output.strides[0][1] = 8;
  ASSERT_EQ(Launch(kSumLong, reduction), Error::kSuccess);
  EXPECT_THAT(Get<int64_t>(512, 3), ::testing::ElementsAre(-9, 22, 33));
  EXPECT_EQ(Lost(), 0u);
}

TEST_F(ReduceValuesTest, SumsWrapAround) {
  Put<int64_t>(0, {INT64_MAX, 2});
  ASSERT_EQ(Launch(kSumLong, Rows<int64_t>(device_, device_ + 512, 1, 2)),
            Error::kSuccess);
  EXPECT_THAT(Get<int64_t>(512, 1), ::testing::ElementsAre(INT64_MIN + 1));
}

TEST_F(ReduceValuesTest, BytesAreNotSigned) {
  // The structure begins with other sizes than that of a sum of int64.
  Put<uint8_t>(0, {3, 250, 7});
  ASSERT_EQ(Launch(kMaxByte, Rows<uint8_t>(device_, device_ + 512, 1, 3)),
            Error::kSuccess);
  EXPECT_THAT(Get<uint8_t>(512, 1), ::testing::ElementsAre(250));
  EXPECT_EQ(Lost(), 0u);
}

TEST_F(ReduceValuesTest, WhatIsNotComputedIsCountedAndTheInputsKept) {
  Put<float>(0, {1, 2, 3});
  Put<float>(512, std::vector<float>(8, 5.0f));
  ASSERT_EQ(Launch(kSumFloat, Rows<float>(device_, device_ + 512, 1, 3)),
            Error::kSuccess);
  EXPECT_THAT(Get<float>(0, 3), ::testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(Lost(), 0u);
  EXPECT_THAT(Get<float>(512, 3), ::testing::ElementsAre(0, 5, 5));
  EXPECT_EQ(Lost(), 4u);
}

TEST_F(ReduceValuesTest, WhatIsNotComputedIsAsLargeAsItsStride) {
  Put<float>(0, {1, 2, 3, 4, 5, 6});
  Put<float>(512, std::vector<float>(8, 5.0f));
  Reduction<float> reduction = Rows<float>(device_, device_ + 512, 2, 3);
  reduction.config.element_size_bytes = 24;  // a state of several numbers
  ASSERT_EQ(Launch(kSumFloat, reduction), Error::kSuccess);
  EXPECT_THAT(Get<float>(512, 4), ::testing::ElementsAre(0, 0, 5, 5));
  EXPECT_EQ(Lost(), 8u);
}

TEST_F(ReduceValuesTest, PartsOfALargeTensorAndManyElementsAreLeftToAGpu) {
  constexpr uint32_t kMany = 20'000, kOut = 1 << 18;
  Put<int64_t>(0, std::vector<int64_t>(kMany, 1));
  ASSERT_EQ(Launch(kSumLong, Rows<int64_t>(device_, device_ + kOut, 1, kMany)),
            Error::kSuccess);
  EXPECT_THAT(Get<int64_t>(kOut, 1), ::testing::ElementsAre(0));
  EXPECT_EQ(Lost(), 8u);
  Reduction<int64_t> part = Rows<int64_t>(device_, device_ + kOut, 1, 3);
  part.accumulate = true;
  ASSERT_EQ(Launch(kSumLong, part), Error::kSuccess);
  Get<int64_t>(kOut, 1);
  EXPECT_EQ(Lost(), 16u);
}

TEST(ReduceKernelTest, EqualElementsMakeOneOrTheirSum) {
  const int64_t seven = 7;
  int64_t out = 0;
  const auto reduce = [&](ReduceKernel::Function function) {
    ReduceEqual({function, 'l', 8}, 1000,
                reinterpret_cast<const unsigned char*>(&seven),
                reinterpret_cast<unsigned char*>(&out));
    return out;
  };
  EXPECT_EQ(reduce(ReduceKernel::Function::kSum), 7000);
  EXPECT_EQ(reduce(ReduceKernel::Function::kMax), 7);
}

TEST_F(ReduceValuesTest, ScratchOfSeveralBlocksIsWritten) {
  Put<int64_t>(0, {4, 5});
  Put<int64_t>(1024, std::vector<int64_t>(4, 9));
  Put<int32_t>(2048, {1, 2});
  Reduction<int64_t> reduction = Rows<int64_t>(device_, device_ + 512, 1, 2);
  reduction.config.ctas_per_output = 2;
  reduction.config.input_mult[2] = 1;
  reduction.cta_buf = device_ + 1024;
  reduction.semaphores = reinterpret_cast<int*>(device_ + 2048);
  ASSERT_EQ(Launch(kSumLong, reduction), Error::kSuccess);
  EXPECT_THAT(Get<int64_t>(512, 1), ::testing::ElementsAre(9));
  EXPECT_EQ(Lost(), 0u);
  EXPECT_THAT(Get<int64_t>(1024, 4), ::testing::ElementsAre(0, 0, 9, 9));
  EXPECT_THAT(Get<int32_t>(2048, 2), ::testing::ElementsAre(0, 2));
}

TEST_F(ReduceValuesTest, SumsOfResultsAreComputedOnceTheyAreLookedAt) {
  constexpr protocol::PayloadKey kKey{
      .communicator = 3, .sequence = 5, .peer = protocol::kNone, .is_transfer = 0};
  int fetched = 0;
  channel.on_ask = [&](const FakeChannel::Written& question) {
    Answer answer;
    answer.host = answer.end = channel.Now();
    answer.complete = true;
    if (question.kind == RecordKind::kFetchPayload) {
      ++fetched;
      const auto fetch = question.as<protocol::FetchPayload>();
      const int64_t numbers[] = {7, 8};
      std::memcpy(channel.bounce_bytes.data(),
                  reinterpret_cast<const char*>(numbers) + fetch.offset, fetch.bytes);
      answer.value = fetch.bytes;
    }
    return answer;
  };
  gpu->libraries().SetResult(device_, 16, kKey, 0);
  ASSERT_EQ(Launch(kSumLong, Rows<int64_t>(device_, device_ + 512, 1, 2)),
            Error::kSuccess);
  EXPECT_EQ(fetched, 0);
  EXPECT_THAT(Get<int64_t>(512, 1), ::testing::ElementsAre(15));
  EXPECT_EQ(Lost(), 0u);
}

}  // namespace
}  // namespace vrank::gpu
