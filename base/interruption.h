// What happens when somebody ends vrank: SIGINT, SIGTERM, SIGHUP.
//
// One line says what stays, what would be left behind is removed, and the process ends
// by the signal, so that a shell sees 128 + its number. Nothing has to be asked for
// that in the middle of the work: files get their names when they are whole
// (whole_file.h), and a process that ends takes all else with it. A session of real
// ranks takes these signals itself, ends the ranks in good order, and notes the signal;
// its error then reaches main, which ends the process the same way.
//
// Thread rule: one thread, but for RemovedOnInterruption; signals may reach any.

#ifndef VRANK_BASE_INTERRUPTION_H_
#define VRANK_BASE_INTERRUPTION_H_

#include <signal.h>

#include <string>

namespace vrank {

// From here on these signals end the process with a line; one that is ignored (nohup)
// stays so. `command`: who says it.
void EndOnInterruption(const std::string& command);

// What stays, for the line: "2 of 16 slices are complete in DIR". Empty: nothing to say
// but that no output is half written.
void SetWhatStays(const std::string& text);
std::string WhatStays();

// A file, or a folder if it is empty then, that an interruption removes as long as this
// lives. Of folders the innermost is to be registered last.
class RemovedOnInterruption {
 public:
  explicit RemovedOnInterruption(const std::string& path);
  ~RemovedOnInterruption();
  RemovedOnInterruption(RemovedOnInterruption&& other) noexcept;
  RemovedOnInterruption& operator=(RemovedOnInterruption&&) = delete;

 private:
  int slot_;  // -1: none
};

// As long as this lives, signals wait: what is done and what is said of it are one
// step.
class InterruptionsHeld {
 public:
  InterruptionsHeld();
  ~InterruptionsHeld();
  InterruptionsHeld(const InterruptionsHeld&) = delete;
  InterruptionsHeld& operator=(const InterruptionsHeld&) = delete;

 private:
  sigset_t before_;
};

// A session has taken the signal itself. 0: none has.
void NoteInterruption(int signal);
int Interruption();
// Ends by the noted signal. REQUIRES: Interruption() != 0.
[[noreturn]] void EndByInterruption();
// Ends as the signal would have, had no session taken it. A signal handler may call it.
[[noreturn]] void EndNow(int signal);

// From here on a write to a pipe whose reader has gone fails, and does not end the
// process: what a job says on stderr must not end the job.
void OutliveBrokenPipes();
// From here on a write beyond the limit of a file's size (ulimit -f) fails, and does
// not end the process. Programs that are started have the signal as it was.
void OutliveFileSizeLimit();
// The reader of the results has gone: ends as if by that write. Returns where the
// process was started with SIGPIPE ignored, since an error is expected there.
void EndByBrokenPipe();

}  // namespace vrank

#endif  // VRANK_BASE_INTERRUPTION_H_
