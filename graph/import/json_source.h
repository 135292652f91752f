// Bytes of a JSON file, plain or gzip, a block at a time: the stream that RapidJSON's
// reader takes.
//
// A value that would fill the memory ends the stream, as does what ends an
// InflatedFile; problem() says why.
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

#include "graph/import/inflated_file.h"

namespace vrank::graph {

// Some editors begin a file with it. It has no meaning in UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class JsonSource {
 public:
  using Ch = char;  // RapidJSON's name

  // The longest strings seen are lists of ranks and of sizes, a few kB.
  static constexpr uint64_t kLongestValue = uint64_t{4} << 20;

  // A byte order mark is passed over.
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
  std::string_view Head() const { return {at_, static_cast<size_t>(end_ - at_)}; }
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

  // Members that RapidJSON uses for writing only.
  void Put(char) {}
  void Flush() {}
  char* PutBegin() { return nullptr; }
  size_t PutEnd(char*) { return 0; }

 private:
  static constexpr size_t kBlock = size_t{1} << 16;

  explicit JsonSource(InflatedFile file);
  void Fill();

  InflatedFile file_;
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
