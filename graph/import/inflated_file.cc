#include "graph/import/inflated_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/regular_file.h"
#include "base/status_macros.h"

namespace vrank::graph {

void InflatedFile::Closer::operator()(gzFile_s* file) const {
  gzclose(file);
}

absl::StatusOr<InflatedFile> InflatedFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenFile opened, OpenRegularFile(path));
  errno = 0;
  const int own = fcntl(fileno(opened.get()), F_DUPFD_CLOEXEC, 0);
  gzFile file = own < 0 ? nullptr : gzdopen(own, "rb");
  if (file == nullptr) {
    const std::string why = errno != 0 ? strerror(errno) : "out of memory";
    if (own >= 0)
      close(own);
    return absl::FailedPreconditionError(
        fmt::format("cannot be opened ({}); give the path of a trace file", why));
  }
  constexpr unsigned kBuffer = 1u << 16;
  gzbuffer(file, kBuffer);
  return InflatedFile(file);
}

size_t InflatedFile::Read(char* to, size_t bytes) {
  if (ended_)
    return 0;
  const int got = gzread(file_.get(), to, static_cast<unsigned>(bytes));
  int code = Z_OK;
  const char* message = gzerror(file_.get(), &code);
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
    problem_ = code == Z_ERRNO ? fmt::format("reading fails ({})", strerror(errno))
               : code == Z_BUF_ERROR
                   ? std::string("the gzip file is cut off")
                   : fmt::format("the gzip file is damaged ({})", message);
  const size_t read = got < 0 ? 0 : static_cast<size_t>(got);
  total_ += read;
  const auto packed = static_cast<uint64_t>(gzoffset(file_.get()));
  ended_ = read == 0 || !problem_.empty();
  if (problem_.empty() && total_ > kRatioMattersFrom &&
      total_ / kLargestRatio > packed) {
    problem_ = fmt::format(
        "{} bytes have become {} bytes, more than {} times as many: this is no trace",
        packed, total_, kLargestRatio);
    ended_ = true;
    return 0;
  }
  return read;
}

}  // namespace vrank::graph
