// Damaged files for the readers' fuzz tests: bytes changed, cut off, or repeated.

#ifndef VRANK_TESTS_BASE_MUTATE_H_
#define VRANK_TESTS_BASE_MUTATE_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace vrank {

// Less than `changes` random changes. `likely`: bytes that the format is made of.
inline std::string Mutated(std::string input, uint32_t changes, std::string_view likely,
                           std::mt19937* random) {
  for (changes = (*random)() % changes; changes > 0 && !input.empty(); --changes) {
    const size_t at = (*random)() % input.size();
    switch ((*random)() % 4) {
      case 0:
        input[at] = static_cast<char>((*random)());
        break;
      case 1:
        input[at] = likely[(*random)() % likely.size()];
        break;
      case 2:
        input.resize(at);
        break;
      default:
        input.insert(at, input.substr((*random)() % input.size(), (*random)() % 64));
    }
  }
  return input;
}

// What kinds, counts, indices and lengths are made of.
inline std::string SmallValues() {
  std::string bytes;
  for (char value = 0; value < 24; ++value)
    bytes.push_back(value);
  return bytes;
}

}  // namespace vrank

#endif  // VRANK_TESTS_BASE_MUTATE_H_
