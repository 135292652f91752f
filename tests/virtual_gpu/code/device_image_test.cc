// PTX lists the parameters of an entry in order, with size and alignment: the oracle
// for what is read from machine code.

#include "virtual_gpu/code/device_image.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "virtual_gpu/code/fatbin.h"

namespace vrank::gpu {

bool operator==(const ParameterPlace& a, const ParameterPlace& b) {
  return a.offset == b.offset && a.size == b.size;
}
void PrintTo(const ParameterPlace& place, std::ostream* out) {
  *out << place.offset << "+" << place.size;
}

namespace {

using testing::StartsWith;

constexpr uint32_t kArchitecture = 90;

std::vector<unsigned char> ReadImage(const std::string& name) {
  std::ifstream file(std::string(VRANK_IMAGES "/") + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

uint32_t NumberAfter(const std::string& line, const std::string& mark) {
  const size_t at = line.find(mark);
  return at == std::string::npos ? 0
                                 : static_cast<uint32_t>(std::strtoul(
                                       &line[at + mark.size()], nullptr, 10));
}

// ".param .align 8 .b8 name[32]" or ".param .u64 name".
std::map<std::string, ParameterPlaces> PtxPlaces() {
  std::map<std::string, ParameterPlaces> kernels;
  std::ifstream file(VRANK_IMAGES "/kernels.ptx");
  ParameterPlaces* places = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (const size_t at = line.find(".entry "); at != std::string::npos) {
      places = &kernels[line.substr(at + 7, line.find('(') - at - 7)];
    } else if (line.find("\t.param ") == 0 && places != nullptr) {
      const uint32_t stated = NumberAfter(line, ".align ");
      const uint32_t scalar =
          static_cast<uint32_t>(std::strtoul(&line[10], nullptr, 10)) / 8;
      const uint32_t size = stated > 0 ? NumberAfter(line, "[") : scalar;
      const uint32_t alignment = stated > 0 ? stated : scalar;
      const uint32_t end =
          places->empty() ? 0 : places->back().offset + places->back().size;
      places->push_back({(end + alignment - 1) / alignment * alignment, size});
    }
  }
  return kernels;
}

class FormTest : public testing::TestWithParam<const char*> {};

TEST_P(FormTest, AgreesWithPtx) {
  const auto expected = PtxPlaces();
  ASSERT_EQ(expected.size(), 8u);
  const std::vector<unsigned char> bytes = ReadImage(GetParam());
  DeviceImage image(bytes.data());
  const CubinKernels& kernels = image.kernels(kArchitecture);
  EXPECT_EQ(kernels.size(), expected.size());
  for (const auto& [name, places] : expected) {
    ASSERT_TRUE(kernels.contains(name)) << name;
    EXPECT_EQ(kernels.at(name).places, places) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Images, FormTest,
                         testing::Values("kernels.cubin", "plain.fatbin", "zstd.fatbin",
                                         "several.fatbin"));

TEST(DeviceImageTest, CompletesWhatTheNameTells) {
  const std::vector<unsigned char> bytes = ReadImage("zstd.fatbin");
  DeviceImage image(bytes.data());
  const char* name = "_Z4EachIJ5ThreeiEEvDpT_";
  KernelSignature signature;
  ThreadWork work;
  KernelResources resources;
  EXPECT_FALSE(ParseKernelSignature(name, &signature));
  ASSERT_EQ(image.Describe(name, kArchitecture, &signature, &work, &resources),
            nullptr);
  EXPECT_TRUE(signature.complete);
  ASSERT_EQ(signature.known, 2u);
  EXPECT_EQ(signature.parameters[0].size, 32u);
  EXPECT_EQ(signature.parameters[0].kind, ParameterKind::kStruct);
  EXPECT_EQ(signature.parameters[1].offset, 32u);
  EXPECT_EQ(signature.bytes, 36u);
}

TEST(DeviceImageTest, DescribesKernelsWithoutMangledNames) {
  const std::vector<unsigned char> bytes = ReadImage("plain.fatbin");
  DeviceImage image(bytes.data());
  KernelSignature signature;
  ThreadWork work;
  KernelResources resources;
  EXPECT_FALSE(ParseKernelSignature("unmangled", &signature));
  ASSERT_EQ(image.Describe("unmangled", kArchitecture, &signature, &work, &resources),
            nullptr);
  ASSERT_EQ(signature.known, 3u);
  EXPECT_EQ(signature.parameters[1].offset, 32u);
  EXPECT_EQ(signature.parameters[2].size, 2u);
}

TEST(DeviceImageTest, SaysWhyItCanNot) {
  KernelSignature signature;
  ThreadWork work;
  KernelResources resources;
  const std::vector<unsigned char> ptx = ReadImage("ptx.fatbin");
  EXPECT_THAT(
      DeviceImage(ptx.data()).Describe("unmangled", 90, &signature, &work, &resources),
      StartsWith("its device image holds PTX only"));
  EXPECT_THAT(
      DeviceImage(nullptr).Describe("unmangled", 90, &signature, &work, &resources),
      StartsWith("it has no device image"));
  const std::vector<unsigned char> zstd = ReadImage("zstd.fatbin");
  EXPECT_THAT(
      DeviceImage(zstd.data()).Describe("_Z5Otherv", 90, &signature, &work, &resources),
      StartsWith("its device image does not describe it"));
  std::vector<unsigned char> lz4 = zstd;
  lz4[16 + 40 + 1] = 0x20;  // the first entry's flags
  EXPECT_THAT(
      DeviceImage(lz4.data()).Describe("unmangled", 90, &signature, &work, &resources),
      StartsWith("its machine code is compressed with lz4"));
  EXPECT_FALSE(signature.complete);
}

TEST(DeviceImageTest, BelievesTheCodeWhereTheNameContradictsIt) {
  KernelSignature signature;
  ParseKernelSignature("_Z1fii", &signature);
  EXPECT_FALSE(Complete({{0, 4}}, &signature));
  EXPECT_EQ(signature.known, 2u);
  EXPECT_TRUE(Complete({{0, 4}, {8, 16}}, &signature));
  EXPECT_EQ(signature.parameters[0].kind, ParameterKind::kInteger);
  EXPECT_EQ(signature.parameters[1].kind, ParameterKind::kStruct);
  EXPECT_EQ(signature.parameters[1].offset, 8u);
}

// Inductor passes up to 250 tensors to a kernel (combo_kernel_max_num_args).
TEST(DeviceImageTest, HasAnyNumberOfParameters) {
  ParameterPlaces places;
  for (uint32_t i = 0; i < 250; ++i)
    places.push_back({8 * i, 8});
  KernelSignature signature;
  EXPECT_TRUE(Complete(places, &signature));
  EXPECT_EQ(signature.known, 250u);
  EXPECT_EQ(signature.parameters[249].offset, 8u * 249);
}

// CUDA C++ Programming Guide, "Binary Compatibility": "A cubin object generated for
// compute capability X.y will only execute on devices of compute capability X.z where
// z>=y"; "PTX Compatibility": code compiled for a capability "can always be compiled to
// binary code of greater or equal compute capability".
TEST(DeviceImageTest, SaysWhichGpusRunIt) {
  const auto runs = [](const char* name, uint32_t architecture) {
    const std::vector<unsigned char> bytes = ReadImage(name);
    DeviceImage image(bytes.data());
    image.kernels(architecture);
    return image.runnable();
  };
  EXPECT_TRUE(runs("kernels.cubin", 90));
  EXPECT_FALSE(runs("kernels.cubin", 80));
  EXPECT_FALSE(runs("kernels.cubin", 100));
  EXPECT_TRUE(runs("several.fatbin", 80));
  EXPECT_TRUE(runs("several.fatbin", 89));
  EXPECT_FALSE(runs("several.fatbin", 75));
  EXPECT_FALSE(runs("several.fatbin", 100));
  EXPECT_TRUE(runs("ptx.fatbin", 100));
  EXPECT_FALSE(runs("ptx.fatbin", 80));
}

// Any bytes as input: what is read lies inside, whatever the file says.
TEST(DeviceImageTest, SurvivesDamagedCode) {
  const std::vector<unsigned char> whole = ReadImage("kernels.cubin");
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<unsigned char> bytes = whole;
    for (int i = 0; i < 8; ++i)
      bytes[random() % bytes.size()] = static_cast<unsigned char>(random());
    if (round % 2 == 0)
      bytes.resize(random() % bytes.size());
    CubinKernels kernels;
    ReadCubin(bytes.data(), bytes.size(), kArchitecture, &kernels);
  }
  const std::vector<unsigned char> packed = ReadImage("zstd.fatbin");
  for (int round = 0; round < 2000; ++round) {
    std::vector<unsigned char> bytes = packed;
    // Not the fat binary's own header, which says how much may be read.
    for (int i = 0; i < 4; ++i)
      bytes[16 + random() % (bytes.size() - 16)] = static_cast<unsigned char>(random());
    Elf elf;
    FindElf(bytes.data(), kArchitecture, &elf);
  }
}

}  // namespace
}  // namespace vrank::gpu
