// Looks at other processes through /proc.

#ifndef VRANK_TESTS_EMULATOR_LAUNCH_PROCESS_STATE_H_
#define VRANK_TESTS_EMULATOR_LAUNCH_PROCESS_STATE_H_

#include <sys/types.h>

#include <fstream>
#include <string>

namespace vrank::emulator {

// What follows the name in /proc/PID/stat: state, parent, ...; empty where there is
// none.
inline std::string ProcessState(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? "" : text.substr(name_end + 2);
}

// False for a zombie, which only waits for its parent.
inline bool Alive(pid_t pid) {
  const std::string state = ProcessState(pid);
  return !state.empty() && state[0] != 'Z' && state[0] != 'X';
}

inline pid_t ParentOf(pid_t pid) {
  const std::string state = ProcessState(pid);
  return state.empty() ? 0 : std::stoi(state.substr(2));
}

}  // namespace vrank::emulator

#endif  // VRANK_TESTS_EMULATOR_LAUNCH_PROCESS_STATE_H_
