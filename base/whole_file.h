// A file that appears in its place as a whole, or not at all.
//
// It is written without a name and gets one when it is done: whoever ends the process
// before that, by whatever signal, leaves nothing behind. On a file system that knows
// no files without a name (NFS) it is written as PATH.partial, which a signal may
// leave.
//
// Thread rule: one thread.

#ifndef VRANK_BASE_WHOLE_FILE_H_
#define VRANK_BASE_WHOLE_FILE_H_

#include <cstdio>
#include <string>

namespace vrank {

class WholeFile {
 public:
  // What a file is called beside its place for as long as it takes to put it there.
  static constexpr char kBeside[] = ".partial";

  // Where `stream()` is nullptr, errno says why.
  explicit WholeFile(const std::string& path);
  // Without a Commit: nothing was written.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  FILE* stream() { return stream_; }
  // Puts what was written into the place, instead of what is there. False, with errno,
  // where that or any write before it has failed; then nothing has changed.
  bool Commit();

 private:
  bool GiveName();

  const std::string path_, beside_;
  FILE* stream_ = nullptr;
  bool named_ = false;  // as beside_
};

}  // namespace vrank

#endif  // VRANK_BASE_WHOLE_FILE_H_
