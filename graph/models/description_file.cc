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

void Problems::RequireBetween(double value, double lowest, double most, Zero zero,
                              const std::string& field, const char* unit) {
  if ((zero == Zero::kAllowed && value == 0) || (value >= lowest && value <= most))
    return;
  Add(fmt::format("{} must be {}from {:g} to {:g}{}, is {:g}", field,
                  zero == Zero::kAllowed ? "0 or " : "", lowest, most, unit, value));
}

void Problems::RequireCount(uint64_t value, const std::string& field, uint64_t most,
                            Zero zero) {
  RequireBetween(static_cast<double>(value), 1, static_cast<double>(most), zero, field,
                 "");
}

void Problems::RequireBytes(uint64_t value, const std::string& field, Zero zero) {
  RequireBetween(static_cast<double>(value), 1, 1e15, zero, field, " bytes");
}

void Problems::RequireNs(int64_t value, const std::string& field, Zero zero,
                         int64_t most) {
  RequireBetween(static_cast<double>(value), 1, static_cast<double>(most), zero, field,
                 " ns");
}

void Problems::RequireRate(double value, const std::string& field, Zero zero) {
  RequireBetween(value, 1e-6, 1e9, zero, field, "");
}

void Problems::RequireFraction(double value, const std::string& field) {
  RequireBetween(value, 1e-6, 1, Zero::kRefused, field, "");
}

absl::Status Problems::ToStatus() const {
  if (problems_.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", subject_, fmt::join(problems_, "; ")));
}

}  // namespace vrank::graph
