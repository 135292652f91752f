// What happens on stderr while a job runs: lines of the ranks and the progress.
//
// Results go to stdout and nothing else does, so that they can be piped. A terminal
// gets one progress line that is rewritten; a file gets a line every few
// seconds where something has changed.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_JOB_RANK_OUTPUT_H_
#define VRANK_TOOLS_JOB_RANK_OUTPUT_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "emulator/session/session.h"
#include "tools/job/job.h"

namespace vrank::tools {

class RankOutput {
 public:
  // `quiet`: shows nothing but keeps the last lines of each rank for ShowTail.
  // `subject` begins each progress line. `computes`: the ranks' GPUs do, so that what
  // the program prints means what it says.
  RankOutput(bool quiet, std::string subject, bool computes = false);
  ~RankOutput();

  void Line(int32_t rank, bool is_stderr, std::string_view line);
  void Update(const emulator::Progress& progress);
  // Something that the user should know now, quiet or not.
  void Note(const std::string& text);
  // Removes the progress line; it comes back with the next Update.
  void Clear();
  void set_subject(std::string subject) { subject_ = std::move(subject); }
  // All ranks write through the launcher of this name, which tells them apart as it
  // likes.
  void set_launcher(std::string launcher) { launcher_ = std::move(launcher); }
  // The last lines of all ranks, where they were not shown.
  void ShowTail();

 private:
  void Show(int32_t rank, std::string_view line) const;

  static constexpr size_t kTailLines = 10;

  const bool quiet_;
  const bool terminal_;
  std::string subject_;
  std::string launcher_;  // empty: each rank's lines are its own
  bool line_shown_ = false;
  bool note_shown_;  // ... or there is nothing to note
  std::chrono::steady_clock::time_point last_line_;
  std::string last_text_;  // of the progress, as shown
  std::map<int32_t, std::deque<std::string>> tails_;
};

// What runs have in common that show their output in `output`, which outlives them.
RunOptions OptionsWithOutput(const Job& job, RankOutput* output);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_RANK_OUTPUT_H_
