#include "graph/import/json_source.h"

#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::graph {

absl::StatusOr<JsonSource> JsonSource::Open(const std::string& path) {
  ASSIGN_OR_RETURN(InflatedFile file, InflatedFile::Open(path));
  return JsonSource(std::move(file));
}

JsonSource::JsonSource(InflatedFile file)
    : file_(std::move(file)), block_(std::make_unique<char[]>(kBlock + 1)) {
  at_ = end_ = block_.get();
  Fill();
  if (Head().substr(0, kByteOrderMark.size()) == kByteOrderMark)
    for (size_t i = 0; i < kByteOrderMark.size(); ++i)
      Take();
}

// A stream that has ended goes on with zeros, which no JSON text holds outside strings
// and which RapidJSON takes for the end.
void JsonSource::Fill() {
  before_ += static_cast<uint64_t>(end_ - block_.get());
  size_t read = 0;
  if (!ended_) {
    read = file_.Read(block_.get(), kBlock);
    problem_ = file_.problem();
    ended_ = read == 0 || !problem_.empty();
  }
  if (problem_.empty() && before_ + read - last_value_ > kLongestValue + kBlock) {
    problem_ = fmt::format("one value is longer than {} bytes: this is no trace",
                           kLongestValue);
    ended_ = true;
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
