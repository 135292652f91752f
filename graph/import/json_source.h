// Bytes of a JSON file, plain or gzip, a block at a time: what RapidJSON's reader asks
// of a stream.
//
// Files come from elsewhere, so the source also says where to stop: a file that a few
// bytes blow up to terabytes, and a single value that would fill the memory, end the
// stream, and problem() says why.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_IMPORT_JSON_SOURCE_H_
#define VRANK_GRAPH_IMPORT_JSON_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

struct gzFile_s;

namespace vrank::graph {

class JsonSource {
 public:
  using Ch = char;  // RapidJSON's name

  // Recorded runs compress 10 to 40 times. DEFLATE ends at about 1,030 times
  // (zlib.net/zlib_tech.html), so a bomb is far above the first limit.
  static constexpr uint64_t kLargestRatio = 250;
  static constexpr uint64_t kRatioMattersFrom = uint64_t{64} << 20;
  // The longest strings seen are lists of ranks and of sizes, a few kB.
  static constexpr uint64_t kLongestValue = uint64_t{4} << 20;

  static absl::StatusOr<JsonSource> Open(const std::string& path);
  JsonSource(JsonSource&&) = default;

  char Peek() const { return *at_; }
  char Take() {
    const char taken = *at_;
    if (++at_ == end_)
      Fill();
    return taken;
  }
  // The first block. REQUIRES: nothing was taken yet
  std::string_view Head() const {
    return {block_.get(), static_cast<size_t>(end_ - block_.get())};
  }
  // Bytes taken, after decompression.
  size_t Tell() const { return before_ + static_cast<size_t>(at_ - block_.get()); }
  // The reader got to the end of a value: the next one may be as long again.
  void ValueRead() {
    last_value_ = before_ + static_cast<uint64_t>(at_ - block_.get());
  }
  // Why the stream ended before its file did; empty where it did not.
  const std::string& problem() const { return problem_; }
  // True while there is more than white space left to take.
  bool MoreThanSpace();

  // Asked of a stream, used for writing only.
  void Put(char) {}
  void Flush() {}
  char* PutBegin() { return nullptr; }
  size_t PutEnd(char*) { return 0; }

 private:
  struct Closer {
    void operator()(gzFile_s* file) const;
  };
  static constexpr unsigned kBlock = 1u << 16;

  explicit JsonSource(gzFile_s* file);
  void Fill();
  void Stop(std::string why);

  std::unique_ptr<gzFile_s, Closer> file_;
  std::unique_ptr<char[]> block_;
  const char* at_;
  const char* end_;
  uint64_t before_ = 0;  // bytes before the block
  uint64_t last_value_ = 0;
  bool ended_ = false;
  std::string problem_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_JSON_SOURCE_H_
