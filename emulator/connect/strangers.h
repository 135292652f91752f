// Connections that were closed because their other end is no process of this job.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_CONNECT_STRANGERS_H_
#define VRANK_EMULATOR_CONNECT_STRANGERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace vrank::emulator {

class Strangers {
 public:
  // `server`: what they connected to, for messages.
  explicit Strangers(std::string server) : server_(std::move(server)) {}

  static constexpr std::string_view kOtherUser = "of another user";
  static constexpr std::string_view kSilent = "that sent nothing";
  static constexpr std::string_view kMalformed = "malformed";

  // The first of each kind becomes a note with the details; all are counted.
  void Count(std::string_view kind, std::string_view details) {
    if (counts_[fmt::format("{}: {}", server_, kind)]++ == 0)
      notes_.push_back(fmt::format(
          "{}: closed a connection: {}; the job continues, and further ones are only "
          "counted",
          server_, details));
  }

  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }
  // By server and kind.
  const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  const std::string server_;
  std::map<std::string, uint64_t> counts_;
  std::vector<std::string> notes_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_CONNECT_STRANGERS_H_
