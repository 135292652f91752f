#include "graph/import/json_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/regular_file.h"
#include "base/status_macros.h"

namespace vrank::graph {

void JsonSource::Closer::operator()(gzFile_s* file) const {
  gzclose(file);
}

absl::StatusOr<JsonSource> JsonSource::Open(const std::string& path) {
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
  gzbuffer(file, kBlock);
  return JsonSource(file);
}

JsonSource::JsonSource(gzFile_s* file)
    : file_(file), block_(std::make_unique<char[]>(kBlock + 1)) {
  at_ = end_ = block_.get();
  Fill();
}

void JsonSource::Stop(std::string why) {
  problem_ = std::move(why);
  ended_ = true;
}

// A stream that has ended goes on with zeros, which no JSON text holds outside strings
// and which RapidJSON takes for the end.
void JsonSource::Fill() {
  before_ += static_cast<uint64_t>(end_ - block_.get());
  int read = 0;
  if (!ended_) {
    read = gzread(file_.get(), block_.get(), kBlock);
    int code = Z_OK;
    const char* message = gzerror(file_.get(), &code);
    if (read < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      Stop(code == Z_ERRNO ? fmt::format("reading fails ({})", strerror(errno))
           : code == Z_BUF_ERROR
               ? std::string("the gzip file is cut off")
               : fmt::format("the gzip file is damaged ({})", message));
      read = read < 0 ? 0 : read;
    }
    ended_ = ended_ || read == 0;
  }
  const uint64_t total = before_ + static_cast<uint64_t>(read);
  const auto packed = static_cast<uint64_t>(gzoffset(file_.get()));
  if (problem_.empty() && total > kRatioMattersFrom && total / kLargestRatio > packed) {
    Stop(
        fmt::format("{} bytes have become {} bytes, more than {} times as many: this "
                    "is no trace",
                    packed, total, kLargestRatio));
    read = 0;
  }
  if (problem_.empty() && total - last_value_ > kLongestValue + kBlock) {
    Stop(fmt::format("one value is longer than {} bytes: this is no trace",
                     kLongestValue));
    read = 0;
  }
  block_[read] = '\0';
  at_ = block_.get();
  end_ = at_ + (read == 0 ? 1 : read);
}

bool JsonSource::MoreThanSpace() {
  while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')
    Take();
  return *at_ != '\0' || !ended_;
}

}  // namespace vrank::graph
