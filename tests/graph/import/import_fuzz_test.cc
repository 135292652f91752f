// FuzzImport over a bounded number of mutated profiles, with every compiler.

#include "tests/graph/import/import_fuzz.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/base/mutate.h"
#include "tests/graph/import/simulated_run.h"

namespace vrank::graph {
namespace {

TEST(ImportFuzzTest, HoldsUnderMutatedProfiles) {
  std::mt19937 random(1);
  const SimulatedRun run = RandomRun(&random, 1, 12);
  const std::string seed = std::string(1, '\0') + ProfileOf(run, Simulate(run), 0);
  for (int round = 0; round < 3'000; ++round) {
    const std::string input = Mutated(seed, 6, "{}[]\",:-0.9e", &random);
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
