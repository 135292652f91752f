// Names written out by hand; kernel_signature_nvcc_test.cc compares with the compiler.

#include "base/guest/kernel_signature.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace vrank {
namespace {

// "i4@0 p8@8 ...": one letter for the kind, then size@offset.
std::string Describe(const char* mangled) {
  KernelSignature signature;
  ParseKernelSignature(mangled, &signature);
  std::string text;
  for (uint32_t i = 0; i < signature.count; ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    const bool is_unsigned =
        parameter.kind == ParameterKind::kInteger && !parameter.is_signed;
    text += is_unsigned ? 'u' : "ifpcs"[static_cast<int>(parameter.kind)];
    text += i < signature.known ? std::to_string(parameter.size) + "@" +
                                      std::to_string(parameter.offset) + " "
                                : "? ";
  }
  return text + (signature.complete ? "complete" : "incomplete");
}

TEST(KernelSignatureTest, ReadsBuiltinTypes) {
  EXPECT_EQ(Describe("_Z5PlainfPKfPfi"), "f4@0 c8@8 p8@16 i4@24 complete");
  EXPECT_EQ(Describe("_Z7Nothingv"), "complete");
  EXPECT_EQ(Describe("_Z8IntegersbhcstjmxyDhd"),
            "u1@0 u1@1 i1@2 i2@4 u2@6 u4@8 u8@16 i8@24 u8@32 f2@40 f8@48 complete");
}

TEST(KernelSignatureTest, ReadsTemplateArguments) {
  EXPECT_EQ(Describe("_ZN3lib4AxpyI13__nv_bfloat16EEvT_PKS2_PS2_m"),
            "f2@0 c8@8 p8@16 u8@24 complete");
  EXPECT_EQ(Describe("_ZN3lib5MixedILin3ELb1EfiEEvPT1_T2_PKS1_PKPKS3_"),
            "p8@0 i4@8 c8@16 c8@24 complete");
}

TEST(KernelSignatureTest, ReadsParameterPacks) {
  EXPECT_EQ(Describe("_ZN3lib4PackIJfPdcEEEviDpT_"), "i4@0 f4@4 p8@8 i1@16 complete");
  EXPECT_EQ(Describe("_ZN3lib4PackIJEEEviDpT_"), "i4@0 complete");
  EXPECT_EQ(Describe("_ZN3lib12PackPointersIJifEEEvDpPKT_Pf"),
            "c8@0 c8@8 p8@16 complete");
}

TEST(KernelSignatureTest, KeepsKindsAfterUnknownSizes) {
  EXPECT_EQ(Describe("_Z4Takei6StructPfS_i"), "i4@0 s? p? s? i? incomplete");
}

TEST(KernelSignatureTest, SaysNothingAboutOtherNames) {
  EXPECT_EQ(Describe("plain_c_kernel"), "incomplete");
  EXPECT_EQ(Describe(""), "incomplete");
  EXPECT_EQ(Describe("_Z"), "incomplete");
  EXPECT_EQ(Describe("_Z4Axpy"), "incomplete") << "a variable";
  EXPECT_EQ(Describe("_Z9WithScopePfDTcl1fEE"), "p8@0 incomplete");
}

TEST(KernelSignatureTest, FindsTheBaseName) {
  EXPECT_EQ(KernelBaseName("_Z5PlainfPKfPfi"), "Plain");
  EXPECT_EQ(KernelBaseName("_ZN3lib4AxpyIfEEvT_PKS1_PS1_m"), "Axpy");
  EXPECT_EQ(KernelBaseName("_ZN12_GLOBAL__N_14CopyIfEEvPT_"), "Copy");
  EXPECT_EQ(KernelBaseName("_ZL6HiddenPKdPdj"), "Hidden");
  EXPECT_EQ(KernelBaseName("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_"
                           "7MeanOpsIffffEEjfLi4EEEEEvT1_"),
            "reduce_kernel");
  EXPECT_EQ(KernelBaseName("_ZN3lib4CopyIXplLi1ELi2EEEEvPf"), "Copy") << "not read on";
  EXPECT_EQ(KernelBaseName("plain_c_kernel"), "plain_c_kernel");
}

// Any bytes: the parser answers something and touches nothing outside the text. (Run
// with the sanitizers of the dev preset.)
TEST(KernelSignatureTest, SurvivesDamagedNames) {
  const std::string good[] = {
      "_ZN3lib4PairIfiEEvPSt4pairIT_T0_EPKSt5tupleIJS2_S3_NS_3BoxIS3_EEEES3_s",
      "_ZN3lib5ApplyIZN6Holder6LaunchIfEEvPT_EUlfE_EEvPfxPKS3_",
      "_ZN3lib5CallsIXadL_Z6TargetfEEfEEvPT0_cd",
      "_ZN3lib12PackPointersIJifEEEvDpPKT_Pf",
      "_Z6ArraysPKPfPA4_KiPvPKvPViPS_",
  };
  const std::string letters = "_ZNIEJXLSTDPRKVFAMUpt0123456789vifdjbml";
  std::mt19937 random(1);
  for (int round = 0; round < 200'000; ++round) {
    std::string name = good[random() % std::size(good)];
    for (uint32_t edits = random() % 6; edits > 0; --edits) {
      const size_t at = 2 + random() % (name.size() - 2);
      const char letter = letters[random() % letters.size()];
      switch (random() % 3) {
        case 0:
          name[at] = letter;
          break;
        case 1:
          name.insert(at, random() % 4, letter);
          break;
        default:
          name.resize(at + 1);
      }
    }
    KernelSignature signature;
    ParseKernelSignature(name, &signature);
    ASSERT_LE(signature.known, signature.count);
    ASSERT_LE(KernelBaseName(name).size(), name.size());
  }
  for (const char* unit :
       {"P", "I", "N", "Z", "F", "3fooI", "PK", "S_", "Dp", "1aILi0E"}) {
    std::string deep = "_Z1f";
    for (int i = 0; i < 5'000; ++i)
      deep += unit;
    KernelSignature signature;
    EXPECT_FALSE(ParseKernelSignature(deep, &signature)) << unit;
  }
}

}  // namespace
}  // namespace vrank
