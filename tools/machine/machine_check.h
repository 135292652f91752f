// What this machine offers to vrank, one finding per question.
//
// A finding says what is there and, where that limits anything, what to do about it.
// Nothing is changed, and nothing of NVIDIA's is loaded.
//
// Thread rule: one thread (it starts python3 and tries system calls).

#ifndef VRANK_TOOLS_MACHINE_MACHINE_CHECK_H_
#define VRANK_TOOLS_MACHINE_MACHINE_CHECK_H_

#include <string>
#include <vector>

namespace vrank::tools {

enum class Health {
  kFine,     // nothing to do
  kLimited,  // jobs run; `advice` says what does not
  kMissing,  // no job runs before that is mended
};

struct MachineFinding {
  std::string topic;  // a word: "memory"
  Health health = Health::kFine;
  std::string found;
  std::string advice;       // empty where kFine
  bool is_reading = false;  // of the moment: another one a second later may differ
};

// In a fixed order, each topic once.
std::vector<MachineFinding> CheckMachine();

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_MACHINE_CHECK_H_
