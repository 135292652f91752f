#include "emulator/watch/loopback_traffic.h"

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace vrank::emulator {
namespace {

// Of ADDRESS:PORT.
std::string_view AddressOf(std::string_view end) {
  return end.substr(0, end.rfind(':'));
}

}  // namespace

bool InFlight(std::istream& connections) {
  std::string line;
  std::getline(connections, line);  // the headings
  while (std::getline(connections, line)) {
    std::istringstream fields(line);
    std::string number, here, there, state, queues;
    // A socket that listens keeps other numbers there.
    constexpr std::string_view kListens = "0A", kNothingToSend = "00000000:";
    if (fields >> number >> here >> there >> state >> queues && state != kListens &&
        AddressOf(here) == AddressOf(there) && !queues.starts_with(kNothingToSend))
      return true;
  }
  return false;
}

bool LoopbackInFlight() {
  std::ifstream connections("/proc/net/tcp");
  if (!connections || InFlight(connections))
    return true;
  // Where there is no IPv6, there is no such table.
  std::ifstream connections_6("/proc/net/tcp6");
  return connections_6 && InFlight(connections_6);
}

}  // namespace vrank::emulator
