// Finding description files.

#include "graph/models/description_file.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vrank::graph {
namespace {

constexpr char kSuffix[] = ".textproto";

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
