// FuzzImport over a bounded number of mutated profiles, with every compiler.

#include "tests/graph/import/import_fuzz.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/graph/import/simulated_run.h"

namespace vrank::graph {
namespace {

TEST(ImportFuzzTest, HoldsUnderMutatedProfiles) {
  std::mt19937 random(1);
  const SimulatedRun run = RandomRun(&random, 1, 12);
  const std::string seed = std::string(1, '\0') + ProfileOf(run, Simulate(run), 0);
  for (int round = 0; round < 3'000; ++round) {
    std::string input = seed;
    for (uint32_t changes = random() % 6; changes > 0 && !input.empty(); --changes) {
      const size_t at = random() % input.size();
      switch (random() % 4) {
        case 0:
          input[at] = static_cast<char>(random());
          break;
        case 1:
          input[at] = "{}[]\",:-0.9e"[random() % 12];
          break;
        case 2:
          input.resize(at);
          break;
        default:
          input.insert(at, input.substr(random() % input.size(), random() % 64));
      }
    }
    FuzzImport(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}

TEST(ImportFuzzTest, HoldsUnderRandomEvents) {
  std::mt19937 random(2);
  for (int round = 0; round < 3'000; ++round) {
    std::string input(1 + random() % 600, '\0');
    for (char& byte : input)
      byte = static_cast<char>(random());
    input[0] = '\2';
    FuzzImport(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace vrank::graph
