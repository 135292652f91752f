// Cuts what a rank writes into lines.
//
// A line longer than kLongestLine is delivered in pieces, so that a program which never
// breaks its lines costs no memory; what follows the last line break is delivered when
// the output ends.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_LAUNCH_LINE_RELAY_H_
#define VRANK_EMULATOR_LAUNCH_LINE_RELAY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace vrank::emulator {

// Opens `folder`/rank<N>.<what> for writing and tells its path; -1 where `folder` is
// empty.
absl::StatusOr<int> OpenLog(const std::string& folder, uint32_t rank, const char* what,
                            std::string* path);

class LineRelay {
 public:
  using Sink = std::function<void(std::string_view line)>;
  static constexpr size_t kLongestLine = 32 << 10;

  // Takes over `fd` (non-blocking) and, where it is not negative, `log_fd`, to which
  // every byte is copied as it is. `log_path` is for messages.
  LineRelay(int fd, int log_fd, std::string log_path, Sink sink);
  ~LineRelay();
  LineRelay(const LineRelay&) = delete;
  LineRelay& operator=(const LineRelay&) = delete;

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }

  // Reads and delivers what is there, up to a fixed amount per call, so that one noisy
  // rank cannot keep the others waiting. Returns false at the end of the output.
  absl::StatusOr<bool> Read();

 private:
  void Deliver(std::string_view bytes);
  void End();

  int fd_;
  int log_fd_;
  const std::string log_path_;
  const Sink sink_;
  std::string pending_;  // an unfinished line
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_LINE_RELAY_H_
