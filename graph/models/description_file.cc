// Finding and parsing description files.

#include "graph/models/description_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

namespace vrank::graph {
namespace {

constexpr char kSuffix[] = ".textproto";

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

bool MeansFile(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos ||
         std::filesystem::path(name_or_path).extension() == kSuffix;
}

std::string DescriptionPath(const std::string& data_dir, const std::string& kind,
                            const std::string& name) {
  return fmt::format("{}/{}/{}{}", data_dir, kind, name, kSuffix);
}

std::vector<std::string> DescriptionNames(const std::string& data_dir,
                                          const std::string& kind) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator files(fmt::format("{}/{}", data_dir, kind),
                                            error);
  if (error) {
    return names;
  }
  for (const auto& file : files) {
    if (file.path().extension() == kSuffix) {
      names.push_back(file.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status ReadTextProto(const std::string& path,
                           google::protobuf::Message* message) {
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
  if (!parser.ParseFromString(text.str(), message)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': {}", path, fmt::join(problems, "; ")));
  }
  return absl::OkStatus();
}

void Problems::RequirePositive(double value, const char* field) {
  if (!(value > 0)) {
    Add(fmt::format("{} must be positive, is {}", field, value));
  }
}

void Problems::RequireFraction(double value, const char* field) {
  if (!(value > 0 && value <= 1)) {
    Add(fmt::format("{} must be above 0 and at most 1, is {}", field, value));
  }
}

void Problems::RequireNotNegative(double value, const char* field) {
  if (!(value >= 0)) {
    Add(fmt::format("{} must not be negative, is {}", field, value));
  }
}

absl::Status Problems::ToStatus() const {
  if (problems_.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", subject_, fmt::join(problems_, "; ")));
}

}  // namespace vrank::graph
