// Small element-wise kernels are computed; the reference is C++'s own operators.

#include "virtual_gpu/core/element_kernel.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/virtual_gpu/core/element_names.h"
#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

using Function = ElementKernel::Function;

// Names as libtorch_cuda 2.11 registers them.
std::string Unrolled(const std::string& functor, const std::string& cast) {
  return "_ZN2at6native27unrolled_elementwise_kernelI" + functor +
         "St5arrayIPcLm3EELi4E23TrivialOffsetCalculatorILi2EjES8_ILi1EjENS0_6memory" +
         cast + "EEviT_T0_T2_T3_T4_T5_";
}
const std::string kCompareLong =
    "NS0_50_GLOBAL__N__e50ef81d_17_CompareKernels_cu_8f1b29aa14CompareFunctorIlEE";
const std::string kEqualFloat =
    "NS0_13BinaryFunctorIffbNS0_51_GLOBAL__N__28ce311f_18_CompareEQKernel_cu_"
    "d8008c9616CompareEqFunctorIfEEEE";
const std::string kDivideLong =
    "NS0_13BinaryFunctorIlllNS0_15binary_internal10DivFunctorIlEEEE";
// A copy by way of T, the type of the result.
std::string Cast(const std::string& type) {
  return "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_"
         "cudaERNS"
         "_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE2_clEvEUl" +
         type +
         "E_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_"
         "6memory12LoadWith"
         "CastILi1EEENSC_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";
}
const std::string kWithoutCast = "15LoadWithoutCastENSB_16StoreWithoutCastE";

TEST(ElementKernelTest, TellsTheFunctionFromTheName) {
  const ElementKernel compare = ParseElementKernel(Vectorized(kCompareLong, 3));
  EXPECT_EQ(compare.shape, ElementKernel::Shape::kElementwise);
  EXPECT_EQ(compare.function, Function::kCompare);
  EXPECT_EQ(compare.type, 'l');
  EXPECT_EQ(ParseElementKernel(Unrolled(kCompareLong, kWithoutCast)).function,
            Function::kCompare);
  const ElementKernel equal = ParseElementKernel(Unrolled(kEqualFloat, kWithoutCast));
  EXPECT_EQ(equal.function, Function::kEqual);
  EXPECT_EQ(equal.type, 'f');
  EXPECT_EQ(equal.result, 'b');
  EXPECT_EQ(ParseElementKernel(Vectorized("NS0_11FillFunctorIdEE", 1)).function,
            Function::kFill);
  EXPECT_EQ(ParseElementKernel(Vectorized("NS0_15CUDAFunctor_addIlEE", 3)).function,
            Function::kAdd);
  EXPECT_EQ(
      ParseElementKernel(Vectorized("NS0_21CUDAFunctorOnSelf_addIiEE", 2)).function,
      Function::kAddScalar);
  EXPECT_EQ(
      ParseElementKernel(Vectorized("NS0_22CUDAFunctorOnOther_addIhEE", 2)).function,
      Function::kScalarAdd);
}

TEST(ElementKernelTest, AddsIntegersModuloTheirRange) {
  const uint8_t a[] = {250, 3}, b[] = {10, 7};
  uint8_t out[2];
  const auto add = [&](Function function, std::vector<uint8_t> functor) {
    const ElementKernel kernel{ElementKernel::Shape::kElementwise, function, 'h', 'h'};
    EXPECT_TRUE(ComputeElements(kernel, functor.data(), a, b, 2, out));
    return std::vector<int>(out, out + 2);
  };
  EXPECT_THAT(add(Function::kAdd, {2}), ::testing::ElementsAre(14, 17));
  // A scalar 100, twice or three times what is added.
  EXPECT_THAT(add(Function::kAddScalar, {100, 2}), ::testing::ElementsAre(194, 203));
  EXPECT_THAT(add(Function::kScalarAdd, {100, 3}), ::testing::ElementsAre(82, 109));
  const int64_t least = INT64_MIN, functor = -1;
  int64_t wide;
  EXPECT_TRUE(
      ComputeElements({ElementKernel::Shape::kElementwise, Function::kAdd, 'l', 'l'},
                      reinterpret_cast<const unsigned char*>(&functor),
                      reinterpret_cast<const unsigned char*>(&least),
                      reinterpret_cast<const unsigned char*>(&least), 1,
                      reinterpret_cast<unsigned char*>(&wide)));
  EXPECT_EQ(wide, 0);
}

TEST(ElementKernelTest, CastsIntegersAndBool) {
  const auto cast = [](char type, char result, const auto& from, auto to) {
    const ElementKernel kernel{ElementKernel::Shape::kElementwise, Function::kCast,
                               type, result};
    EXPECT_TRUE(ComputeElements(
        kernel, nullptr, reinterpret_cast<const unsigned char*>(from.data()), nullptr,
        from.size(), reinterpret_cast<unsigned char*>(to.data())));
    return to;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(cast('b', 'l', std::vector<uint8_t>{1, 0}, std::vector<int64_t>(2)),
              ElementsAre(1, 0));
  EXPECT_THAT(cast('i', 'l', std::vector<int32_t>{-5, 7}, std::vector<int64_t>(2)),
              ElementsAre(-5, 7));
  EXPECT_THAT(cast('l', 'h', std::vector<int64_t>{257, -1}, std::vector<uint8_t>(2)),
              ElementsAre(1, 255));
  EXPECT_THAT(cast('i', 'b', std::vector<int32_t>{256, 0}, std::vector<uint8_t>(2)),
              ElementsAre(1, 0));
  EXPECT_THAT(cast('s', 'd', std::vector<int16_t>{-3}, std::vector<double>(1)),
              ElementsAre(-3.0));
}

// One byte of c10::ScalarType, then the size of an element.
TEST(ElementKernelTest, ReadsTheTypesOfACastFromItsLaunch) {
  ElementKernel kernel = ParseElementKernel(Cast("l"));
  EXPECT_EQ(kernel.function, Function::kCast);
  EXPECT_EQ(kernel.result, 'l');
  const auto read = [&](unsigned char from, unsigned char to) {
    const unsigned char load[kCasterBytes] = {from}, store[kCasterBytes] = {to};
    return ReadCast(load, store, &kernel);
  };
  EXPECT_TRUE(read(11, 4));  // Bool, Long
  EXPECT_EQ(kernel.type, 'b');
  EXPECT_TRUE(read(3, 4));  // Int
  EXPECT_EQ(kernel.type, 'i');
  EXPECT_FALSE(read(6, 4));   // Float may be out of range
  EXPECT_FALSE(read(15, 4));  // BFloat16
  EXPECT_FALSE(read(11, 3));  // not what the name says
}

// Of a sum of two types, too, which nobody computes.
TEST(ElementKernelTest, ReadsHowLargeConvertedElementsAre) {
  const ElementKernel sum = ParseElementKernel(Unrolled(
      "NS0_15CUDAFunctor_addIfEE", "12LoadWithCastILi2EEENSB_13StoreWithCastILi1EE"));
  EXPECT_EQ(sum.function, Function::kUnknown);
  EXPECT_TRUE(sum.converts);
  const unsigned char store[kCasterBytes] = {6, 0, 0, 0, 4};  // Float
  EXPECT_EQ(StoredBytes(store), 4u);
}

TEST(ElementKernelTest, LeavesOtherFunctionsUnknown) {
  // Another operation; operands of other types than the functor's; bits of numbers; a
  // type that is no number of C++.
  for (const std::string& name :
       {Vectorized(kDivideLong, 3),
        Vectorized("NS0_15CUDAFunctor_addIN3c104HalfEEE", 3),
        Vectorized("NS0_21CUDAFunctorOnSelf_addIbEE", 2),
        Unrolled(kCompareLong, "12LoadWithCastILi2EEENSB_13StoreWithCastILi1EE"),
        Vectorized("NS0_13AUnaryFunctorIlllNS0_17BitwiseAndFunctorIlEEEE", 2),
        Vectorized("NS0_13BinaryFunctorIlllNS0_17BitwiseAndFunctorIlEEEE", 3),
        Vectorized("NS0_13BinaryFunctorIlibNS0_16CompareEqFunctorIlEEEE", 3),
        Vectorized("NS0_11FillFunctorIN3c107complexIfEEEE", 1),
        Cast("N3c108BFloat16E")}) {
    const ElementKernel kernel = ParseElementKernel(name);
    EXPECT_EQ(kernel.shape, ElementKernel::Shape::kElementwise) << name;
    EXPECT_EQ(kernel.function, Function::kUnknown) << name;
  }
  // Elements at once say how large they are at most.
  for (const auto& [at_once, bytes] :
       {std::pair("1", 16u), std::pair("2", 8u), std::pair("4", 4u), std::pair("8", 2u),
        std::pair("16", 16u)})
    EXPECT_EQ(ParseElementKernel(std::string("_ZN2at6native29vectorized_elementwise_"
                                             "kernelILi") +
                                 at_once + "EZNS0_15exp_kernel_cudaE")
                  .result_bytes,
              bytes);
  EXPECT_EQ(ParseElementKernel("_Z6kernelPKfPf").shape, ElementKernel::Shape::kOther);
  EXPECT_EQ(
      ParseElementKernel("_ZN2at6native27unrolled_elementwise_kernelINS0_99").shape,
      ElementKernel::Shape::kElementwise);
}

TEST(ElementKernelTest, ComparisonsOfStridedOperandsAreTold) {
  const auto strided = [](const std::string& functor) {
    return ParseElementKernel(
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_"
        "kernel_impl_nocastI" +
        functor + "EEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_");
  };
  const ElementKernel equal = strided(kEqualFloat);
  EXPECT_EQ(equal.shape, ElementKernel::Shape::kStrided);
  EXPECT_EQ(equal.function, Function::kEqual);
  EXPECT_EQ(equal.type, 'f');
  const ElementKernel half = strided(
      "NS0_13BinaryFunctorIN3c108BFloat16ES5_bNS0_51_GLOBAL__N__68c48bfe_18_"
      "CompareEQKernel_cu_d8008c9616CompareEqFunctorIS5_EEEE");
  EXPECT_EQ(half.shape, ElementKernel::Shape::kStrided);
  EXPECT_EQ(half.type, 'B');
  const ElementKernel scalar = strided(
      "ZNS0_21compare_scalar_kernelIfEEvRNS_18TensorIteratorBaseENS0_50_GLOBAL__"
      "N__30bf7ff7_17_CompareKernels_cu_8f1b29aa6OpTypeET_EUlfE_");
  EXPECT_EQ(scalar.shape, ElementKernel::Shape::kStrided);
  EXPECT_EQ(scalar.function, Function::kCompareScalar);
  EXPECT_EQ(scalar.result, 'b');
  // Others may write several operands.
  EXPECT_EQ(strided("NS0_10AbsFunctorIfEE").shape, ElementKernel::Shape::kOther);
}

// The functor with its scalar, as the launch passes it.
template <typename T>
std::vector<unsigned char> FunctorOf(const ElementKernel& kernel, int32_t operation,
                                     T scalar) {
  std::vector<unsigned char> functor(kMaxFunctorBytes);
  std::memcpy(functor.data(), &operation, sizeof operation);
  if (const uint32_t bytes = FunctorBytesOf(kernel);
      ComparesWithScalar(kernel) || kernel.function == Function::kMultiplyScalar)
    std::memcpy(functor.data() + bytes - sizeof scalar, &scalar, sizeof scalar);
  return functor;
}

template <typename T, typename R>
std::vector<R> Computed(const std::string& functor, int operands, int32_t operation,
                        T scalar, const std::vector<T>& a, const std::vector<T>& b) {
  const ElementKernel kernel = ParseElementKernel(Vectorized(functor, operands));
  EXPECT_NE(kernel.function, Function::kUnknown) << functor;
  EXPECT_EQ(InputsOf(kernel), static_cast<uint32_t>(operands - 1)) << functor;
  std::vector<R> out(a.size());
  EXPECT_TRUE(ComputeElements(kernel, FunctorOf(kernel, operation, scalar).data(),
                              reinterpret_cast<const unsigned char*>(a.data()),
                              reinterpret_cast<const unsigned char*>(b.data()),
                              a.size(), reinterpret_cast<unsigned char*>(out.data())));
  return out;
}

template <typename T>
void ComputesAsCpp(char type) {
  const std::string t(1, type);
  const std::vector<T> a{T(3), T(7), T(0), static_cast<T>(-5)},
      b{T(3), T(2), T(9), T(4)};
  const T s = 7;
  const auto expect = [&](auto result, const std::string& functor, int operands,
                          int32_t operation, auto expected) {
    using R = decltype(result);
    const auto out = Computed<T, R>(functor, operands, operation, s, a, b);
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(out[i], static_cast<R>(expected(a[i], b[i]))) << functor << " " << i;
  };
  const std::string equal = "NS0_13BUnaryFunctorI" + t + t +
                            "bNS0_51_GLOBAL__N__28ce311f_18_CompareEQKernel_cu_"
                            "d8008c9616CompareEqFunctorI" +
                            t + "EEEE";
  expect(uint8_t{}, equal, 2, 0, [&](T x, T) { return x == s; });
  expect(uint8_t{}, equal, 2, 1, [&](T x, T) { return x != s; });
  const std::string compare =
      "ZNS0_21compare_scalar_kernelI" + t +
      "EEvRNS_18TensorIteratorBaseENS0_50_GLOBAL__N__e50ef81d_17_CompareKernels_cu_"
      "8f1b29aa6OpTypeET_EUl" +
      t + "E_";
  expect(uint8_t{}, compare, 2, 0, [&](T x, T) { return x >= s; });
  expect(uint8_t{}, compare, 2, 3, [&](T x, T) { return x < s; });
  const std::string mul = "NS0_15binary_internal10MulFunctorI" + t + "EEEE";
  expect(T{}, "NS0_13BinaryFunctorI" + t + t + t + mul, 3, 0,
         [](T x, T y) { return x * y; });
  expect(T{}, "NS0_13AUnaryFunctorI" + t + t + t + mul, 2, 0,
         [&](T x, T) { return x * s; });
  expect(T{}, "NS0_10AbsFunctorI" + t + "EE", 2, 0,
         [](T x, T) { return x < T(0) ? -x : x; });
}

TEST(ElementKernelTest, ComputesAsCpp) {
  ComputesAsCpp<int32_t>('i');
  ComputesAsCpp<int64_t>('l');
  ComputesAsCpp<uint8_t>('h');
  ComputesAsCpp<float>('f');
  ComputesAsCpp<double>('d');
  const std::vector<uint8_t> a{0, 0, 1, 1}, b{0, 1, 0, 1};
  const auto both = [&](const std::string& of) {
    return Computed<uint8_t, uint8_t>("NS0_13BinaryFunctorIbbbNS0_" + of + "IbEEEE", 3,
                                      0, 0, a, b);
  };
  EXPECT_THAT(both("17BitwiseAndFunctor"), ::testing::ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(both("16BitwiseOrFunctor"), ::testing::ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(both("15binary_internal10MulFunctor"),
              ::testing::ElementsAre(0, 0, 0, 1));
}

class ElementValuesTest : public GpuTest {
 protected:
  int operation = 1;
  // out = a > b, of `elements` numbers of 8 bytes.
  Error Greater(const void* a, const void* b, void* out, int elements) {
    return LaunchAs(Vectorized(kCompareLong, 3), a, b, out, elements);
  }
  Error LaunchAs(const std::string& name, const void* a, const void* b, void* out,
                 int elements) {
    const void* operands[] = {out, a, b};
    void* arguments[] = {&elements, &operation, operands};
    KernelLaunch launch;
    launch.kernel = gpu->FindKernel(name.c_str());
    // As the kernel's machine code tells.
    KernelSignature& signature = launch.kernel->signature;
    signature.complete = true;
    signature.count = signature.known = 3;
    signature.bytes = 32;
    signature.parameters = {{0, 4, ParameterKind::kInteger, true},
                            {4, 4, ParameterKind::kStruct, false},
                            {8, 24, ParameterKind::kStruct, false}};
    launch.arguments = arguments;
    return gpu->LaunchKernel(launch);
  }
  std::vector<unsigned char> Fetch(const void* from, uint64_t bytes) {
    std::vector<unsigned char> host(bytes, 0xee);
    EXPECT_EQ(CopyBytes(host.data(), from, bytes), Error::kSuccess);
    return host;
  }
};

TEST_F(ElementValuesTest, KnownNumbersAreComparedAndKept) {
  const int64_t a[] = {5, -7, 9}, b[] = {4, -6, 9};
  char* device = static_cast<char*>(NewMemory(4096));
  ASSERT_EQ(CopyBytes(device, a, sizeof a), Error::kSuccess);
  ASSERT_EQ(CopyBytes(device + 64, b, sizeof b), Error::kSuccess);
  ASSERT_EQ(Greater(device, device + 64, device + 32, 3), Error::kSuccess);
  EXPECT_THAT(Fetch(device + 32, 3), ::testing::ElementsAre(1, 0, 0));
  // What lies behind the output and in the inputs is still there.
  int64_t seen[3];
  ASSERT_EQ(CopyBytes(seen, device + 64, sizeof seen), Error::kSuccess);
  EXPECT_THAT(seen, ::testing::ElementsAre(4, -6, 9));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 0u);
}

TEST_F(ElementValuesTest, WhatAnyKernelComputedIsNotCompared) {
  char* device = static_cast<char*>(NewMemory(4096));
  const int64_t a = 5;
  ASSERT_EQ(CopyBytes(device, &a, sizeof a), Error::kSuccess);
  ASSERT_EQ(Launch(nullptr, nullptr, device + 64), Error::kSuccess);
  ASSERT_EQ(Greater(device, device + 64, device + 32, 1), Error::kSuccess);
  EXPECT_THAT(Fetch(device + 32, 1), ::testing::ElementsAre(0));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 1u);
}

TEST_F(ElementValuesTest, ResultsOfCollectivesAreComparedOnceTheyAreLookedAt) {
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
  char* device = static_cast<char*>(NewMemory(4096));
  gpu->libraries().SetResult(device, 16, kKey, 0);
  ASSERT_EQ(Greater(device + 8, device, device + 32, 1), Error::kSuccess);
  ASSERT_EQ(Greater(device, device + 8, device + 33, 1), Error::kSuccess);
  // Neither the launch nor a copy on the device waits for other ranks.
  ASSERT_EQ(CopyBytes(device + 100, device + 32, 2), Error::kSuccess);
  EXPECT_EQ(fetched, 0);
  EXPECT_THAT(Fetch(device + 100, 2), ::testing::ElementsAre(1, 0));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 0u);
  // To other ranks it is something that a kernel computes.
  EXPECT_EQ(gpu->libraries().Inspect(device + 32, 1).at(0).state,
            protocol::PayloadState::kComputed);
}

// Of a function that is not computed as many bytes per element count as written as its
// kernel may write (8, where it takes two at once): what the host put there is counted
// as computed where it is read, and the rest is what it was.
TEST_F(ElementValuesTest, WhatAnUnknownFunctionMayReachIsCountedAndTheRestKept) {
  char* device = static_cast<char*>(NewMemory(4096));
  const std::vector<unsigned char> written(96, 0x5a);
  ASSERT_EQ(CopyBytes(device, written.data(), written.size()), Error::kSuccess);
  std::string name = Vectorized(kDivideLong, 3);
  name.replace(name.find("Li4E"), 4, "Li2E");
  ASSERT_EQ(LaunchAs(name, device, device + 80, device + 32, 2), Error::kSuccess);
  EXPECT_THAT(Fetch(device, 32), ::testing::Each(0x5a));
  EXPECT_THAT(Fetch(device + 48, 48), ::testing::Each(0x5a));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 0u);
  EXPECT_THAT(Fetch(device + 32, 16), ::testing::Each(0));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 16u);
}

TEST_F(ElementValuesTest, ManyElementsAreLeftToAGpu) {
  char* device = static_cast<char*>(NewMemory(1 << 20));
  constexpr int kMany = 20'000, kOut = 1 << 19;
  const std::vector<char> zeros(8 * kMany);
  ASSERT_EQ(CopyBytes(device, zeros.data(), zeros.size()), Error::kSuccess);
  ASSERT_EQ(Greater(device, device, device + kOut, kMany), Error::kSuccess);
  Fetch(device + kOut, kMany);
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), uint64_t{kMany});
}

// What nobody knows is zero for the host, and what follows from it is what follows from
// zeros: x == x, however large x is. It counts as computed.
TEST_F(ElementValuesTest, WhatFollowsFromUnknownNumbersIsWhatFollowsFromZeros) {
  char* device = static_cast<char*>(NewMemory(1 << 20));
  constexpr int kMany = 20'000, kOut = 1 << 19;
  const std::string equal_long =
      "NS0_13BinaryFunctorIllbNS0_51_GLOBAL__N__28ce311f_18_CompareEQKernel_cu_"
      "d8008c9616CompareEqFunctorIlEEEE";
  ASSERT_EQ(Launch(nullptr, nullptr, device), Error::kSuccess);
  for (const auto& [name, expected] :
       {std::pair(equal_long, 0), std::pair(kCompareLong, 0)}) {
    ASSERT_EQ(LaunchAs(Vectorized(name, 3), device, device, device + kOut, kMany),
              Error::kSuccess);
    // The operation is 1: != and >, which hold for no zero.
    EXPECT_THAT(Fetch(device + kOut, kMany), ::testing::Each(expected));
  }
  operation = 0;
  for (const std::string& name : {equal_long, kCompareLong}) {
    ASSERT_EQ(LaunchAs(Vectorized(name, 3), device, device, device + kOut, kMany),
              Error::kSuccess);
    EXPECT_THAT(Fetch(device + kOut, kMany), ::testing::Each(1));
    EXPECT_THAT(Fetch(device + kOut + 77, 3), ::testing::Each(1));
  }
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 4u * kMany + 6u);
  // Beside a number that is known nothing follows.
  const int64_t known = 5;
  ASSERT_EQ(CopyBytes(device, &known, sizeof known), Error::kSuccess);
  ASSERT_EQ(LaunchAs(Vectorized(equal_long, 3), device, device, device + kOut, kMany),
            Error::kSuccess);
  EXPECT_THAT(Fetch(device + kOut, 3), ::testing::Each(0));
}

}  // namespace
}  // namespace vrank::gpu
