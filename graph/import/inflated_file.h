// Bytes of a file, plain or gzip.
//
// Files come from elsewhere: a file that a few bytes inflate to terabytes ends early,
// and problem() says why.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_IMPORT_INFLATED_FILE_H_
#define VRANK_GRAPH_IMPORT_INFLATED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

struct gzFile_s;

namespace vrank::graph {

class InflatedFile {
 public:
  // Recorded runs compress 10 to 40 times. DEFLATE ends at about 1,030 times
  // (zlib.net/zlib_tech.html), so a bomb is far above the first limit.
  static constexpr uint64_t kLargestRatio = 250;
  static constexpr uint64_t kRatioMattersFrom = uint64_t{64} << 20;

  static absl::StatusOr<InflatedFile> Open(const std::string& path);
  InflatedFile(InflatedFile&&) = default;

  // Returns how many bytes were read: fewer than `bytes` at the end alone.
  // REQUIRES: bytes < 2^31
  size_t Read(char* to, size_t bytes);
  // Why the bytes ended before the file did; empty where they did not.
  const std::string& problem() const { return problem_; }

 private:
  struct Closer {
    void operator()(gzFile_s* file) const;
  };

  explicit InflatedFile(gzFile_s* file) : file_(file) {}

  std::unique_ptr<gzFile_s, Closer> file_;
  uint64_t total_ = 0;
  bool ended_ = false;
  std::string problem_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_INFLATED_FILE_H_
