// A file that appears in its place as a whole, or not at all.
//
// It is written without a name and gets one when it is complete: ending the process
// before that, by whatever signal, leaves nothing behind. On a file system without
// unnamed files (NFS) it is written under a name of its own beside its place; an
// interruption removes it (interruption.h), SIGKILL leaves it. No other file of the
// folder is touched, and of several writers of one place the last one remains.
//
// Thread rule: one thread.

#ifndef VRANK_BASE_WHOLE_FILE_H_
#define VRANK_BASE_WHOLE_FILE_H_

#include <cstdio>
#include <optional>
#include <string>

#include "base/interruption.h"

namespace vrank {

class WholeFile {
 public:
  enum class Unnamed { kIfPossible, kNever };  // kNever: for tests

  // Where `stream()` is nullptr, errno says why.
  explicit WholeFile(const std::string& path, Unnamed unnamed = Unnamed::kIfPossible);
  // Without a Commit: nothing was written.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  FILE* stream() { return stream_; }
  // Puts what was written into the place, instead of what is there. False, with errno,
  // where that or any write before it has failed; then nothing has changed.
  bool Commit();

 private:
  template <class Make>
  bool TakeName(Make make);
  void RemoveName();
  bool GiveName();

  const std::string path_;
  FILE* stream_ = nullptr;
  std::string beside_;  // its name before it is in its place; empty: none
  std::optional<RemovedOnInterruption> removed_;  // while it has that name
};

}  // namespace vrank

#endif  // VRANK_BASE_WHOLE_FILE_H_
