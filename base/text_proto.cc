#include "base/text_proto.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/tokenizer.h>

namespace vrank {
namespace {

// Keeps every complaint of the parser, in file order.
class ParseErrors : public google::protobuf::io::ErrorCollector {
 public:
  explicit ParseErrors(std::vector<std::string>* problems) : problems_(problems) {}
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    // The parser counts from 0; people and editors from 1.
    problems_->push_back(fmt::format("{}:{}: {}", line + 1, column + 1, message));
  }

 private:
  std::vector<std::string>* problems_;
};

}  // namespace

absl::Status ReadTextProto(const std::string& path, google::protobuf::Message* message,
                           google::protobuf::TextFormat::ParseInfoTree* places) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': is a folder, not a file; name a file in it", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        fmt::format("'{}': {}; check the path", path, std::strerror(errno)));
  }
  std::stringstream text;
  text << file.rdbuf();

  if (text.str().find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}': it is no description file: those are text, this is binary; check the "
        "path",
        path));
  }

  std::vector<std::string> problems;
  ParseErrors errors(&problems);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (places != nullptr)
    parser.WriteLocationsTo(places);
  if (!parser.ParseFromString(text.str(), message)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': {}", path, fmt::join(problems, "; ")));
  }
  return absl::OkStatus();
}

}  // namespace vrank
