// Runs kernels that nvcc compiled by their machine code, on a few buffers, also with
// unknown input.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CODE_INTERPRETER_FIXTURE_H_
#define VRANK_TESTS_VIRTUAL_GPU_CODE_INTERPRETER_FIXTURE_H_

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "virtual_gpu/code/interpreter.h"
#include "virtual_gpu/code/machine_code.h"
#include "virtual_gpu/code/overlay_memory.h"
#include "virtual_gpu/code/stored_parameters.h"

namespace vrank::gpu {

// Device memory that consists of a few buffers.
class Buffers : public DeviceBytes {
 public:
  struct Buffer {
    std::vector<unsigned char> bytes, known;
    bool made_up = false;
  };

  template <typename T>
  uint64_t Add(const std::vector<T>& values) {
    Buffer buffer;
    buffer.bytes.resize(values.size() * sizeof(T));
    std::memcpy(buffer.bytes.data(), values.data(), buffer.bytes.size());
    buffer.known.assign(buffer.bytes.size(), 0xff);
    const uint64_t address = kBase + buffers_.size() * kSpan;
    buffers_[address] = std::move(buffer);
    return address;
  }

  void Load(uint64_t address, uint64_t bytes, unsigned char* to,
            const Flags& flags) override {
    const auto found = buffers_.find(address / kSpan * kSpan);
    if (found == buffers_.end())
      return;
    const uint64_t at = address % kSpan;
    for (uint64_t i = 0; i < bytes && at + i < found->second.bytes.size(); ++i) {
      to[i] = found->second.bytes[at + i];
      flags.known[i] = found->second.known[at + i];
      flags.valid[i] = 0xff;
      flags.made_up[i] = found->second.made_up ? 0xff : 0;
    }
  }

  void Keep(const OverlayMemory& memory) {
    for (const OverlayMemory::Run& run : memory.Written()) {
      Buffer& buffer = buffers_.at(run.address / kSpan * kSpan);
      const uint64_t at = run.address % kSpan;
      std::copy(run.bytes.begin(), run.bytes.end(),
                buffer.bytes.begin() + static_cast<ptrdiff_t>(at));
      std::fill_n(buffer.known.begin() + static_cast<ptrdiff_t>(at), run.bytes.size(),
                  run.known ? 0xff : 0);
    }
  }

  template <typename T>
  std::vector<T> Get(uint64_t address) const {
    const Buffer& buffer = buffers_.at(address);
    std::vector<T> values(buffer.bytes.size() / sizeof(T));
    std::memcpy(values.data(), buffer.bytes.data(), buffer.bytes.size());
    return values;
  }
  Buffer& At(uint64_t address) { return buffers_.at(address); }
  static bool IsAddress(uint64_t word) {
    return word >= kBase && word < kBase + 1024 * kSpan;
  }
  static uint64_t BufferOf(uint64_t address) { return address / kSpan * kSpan; }
  std::map<uint64_t, Buffer>& all() { return buffers_; }

 private:
  static constexpr uint64_t kBase = 0x7f1200000000, kSpan = 1 << 20;
  std::map<uint64_t, Buffer> buffers_;
};

// Parameters as a kernel takes them: each at a multiple of its size.
class Parameters {
 public:
  template <typename... T>
  explicit Parameters(const T&... values) {
    (Put(values), ...);
  }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  template <typename T>
  void Put(const T& value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* from = reinterpret_cast<const unsigned char*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
  }
  std::vector<unsigned char> bytes_;
};

class InterpreterTest : public testing::TestWithParam<int> {
 protected:
  explicit InterpreterTest(const char* image = "integers") : image_(image) {}

  static constexpr int kElements = 100;

  MachineCode Kernel(const char* name) {
    const std::string path =
        VRANK_IMAGES "/" + image_ + std::to_string(GetParam()) + ".cubin";
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    MachineCode code;
    const char* problem =
        ReadMachineCode(reinterpret_cast<const unsigned char*>(bytes.data()),
                        bytes.size(), name, &code);
    EXPECT_EQ(problem, nullptr) << name << ": " << problem;
    return code;
  }

  Outcome Run(const char* name, const Parameters& parameters, uint32_t grid,
              uint32_t block, Buffers* buffers) {
    MachineCode code = Kernel(name);
    OverlayMemory memory(buffers);
    InterpretedLaunch launch;
    launch.grid[0] = grid;
    launch.block[0] = block;
    launch.parameters = parameters.bytes().data();
    launch.parameter_bytes = static_cast<uint32_t>(parameters.bytes().size());
    launch.most_thread_instructions = 4'000'000;
    const Outcome outcome = Interpret(code, launch, &memory);
    read_made_up_ = memory.made_up_address() != 0;
    if (outcome.kind == Outcome::Kind::kDone) {
      buffers->Keep(memory);
      CheckStores(code, parameters, memory);
    }
    return outcome;
  }

  // What was written lies in buffers whose addresses the code is said to store through.
  void CheckStores(const MachineCode& code, const Parameters& parameters,
                   const OverlayMemory& memory) {
    std::map<uint64_t, uint32_t> place;  // of an address among the parameters
    std::vector<uint32_t> pointers;
    const std::vector<unsigned char>& bytes = parameters.bytes();
    for (uint32_t at = 0; at + sizeof(uint64_t) <= bytes.size();
         at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      if (!Buffers::IsAddress(word))
        continue;
      place[Buffers::BufferOf(word)] = at;
      pointers.push_back(at);
    }
    const StoredParameters stored = FindStoredParameters(code, pointers);
    if (!stored.known)
      return;
    for (const OverlayMemory::Run& run : memory.Written()) {
      const auto at = place.find(Buffers::BufferOf(run.address));
      ASSERT_NE(at, place.end()) << "no parameter points to what was written";
      EXPECT_TRUE(
          std::binary_search(stored.words.begin(), stored.words.end(), at->second))
          << "stores through parameter word " << at->second;
    }
  }

  // Runs it with all input known, then many times with some bytes of it unknown: what
  // stays known must be what both values of these bytes give. Where these are made up,
  // it says so wherever another result comes of them.
  void Check(const char* name, const Parameters& parameters, uint32_t grid,
             uint32_t block, std::vector<uint64_t> inputs) {
    SCOPED_TRACE(name);
    const Buffers before = buffers_;
    const Outcome outcome = Run(name, parameters, grid, block, &buffers_);
    ASSERT_EQ(outcome.kind, Outcome::Kind::kDone) << outcome.what;
    for (const auto& [address, buffer] : buffers_.all())
      ASSERT_EQ(std::count(buffer.known.begin(), buffer.known.end(), 0), 0);
    for (int round = 0; round < 24; ++round) {
      Buffers unknown = before, other = before;
      const uint64_t input = inputs[random_() % inputs.size()];
      const size_t at = random_() % unknown.At(input).bytes.size();
      unknown.At(input).known[at] = 0;
      unknown.At(input).bytes[at] = static_cast<unsigned char>(random_());
      other.At(input).bytes[at] ^= static_cast<unsigned char>(1 + random_() % 255);
      other.At(input).made_up = true;
      const bool other_is_done =
          Run(name, parameters, grid, block, &other).kind == Outcome::Kind::kDone;
      for (const auto& [address, buffer] : other.all())
        if (other_is_done && address != input &&
            buffer.bytes != buffers_.At(address).bytes) {
          ASSERT_TRUE(read_made_up_) << at;
        }
      if (Run(name, parameters, grid, block, &unknown).kind != Outcome::Kind::kDone ||
          !other_is_done)
        continue;
      for (auto& [address, buffer] : unknown.all())
        for (size_t i = 0; i < buffer.bytes.size(); ++i) {
          if (buffer.known[i] == 0)
            continue;
          ASSERT_EQ(buffer.bytes[i], buffers_.At(address).bytes[i]) << at << " " << i;
          if (address != input || i != at) {
            ASSERT_EQ(buffer.bytes[i], other.At(address).bytes[i]) << at << " " << i;
          }
        }
    }
  }

  template <typename T>
  std::vector<T> Random(size_t count,
                        int64_t least = std::numeric_limits<int64_t>::min(),
                        int64_t most = std::numeric_limits<int64_t>::max()) {
    std::vector<T> values(count);
    for (T& value : values)
      value =
          static_cast<T>(std::uniform_int_distribution<int64_t>(least, most)(random_));
    return values;
  }
  template <typename T>
  uint64_t Output(size_t count) {
    return buffers_.Add(std::vector<T>(count));
  }

  const std::string image_;
  std::mt19937_64 random_{7};
  bool read_made_up_ = false;  // by the last Run
  Buffers buffers_;
};

}  // namespace vrank::gpu

#endif  // VRANK_TESTS_VIRTUAL_GPU_CODE_INTERPRETER_FIXTURE_H_
