#include "tools/job/job_flags.h"

#include <cctype>
#include <charconv>
#include <numeric>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/launch/launcher_command.h"
#include "tools/machine/file_options.h"

namespace vrank::tools {
namespace {

// "kEventRecord" -> "event_record".
std::string FlagName(const char* id) {
  std::string name;
  for (const char* c = id + 1; *c != 0; ++c) {
    if (std::isupper(static_cast<unsigned char>(*c)) != 0 && !name.empty())
      name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  return name;
}

const char* const kHostCostIds[] = {
#define VRANK_HOST_COST(id, default_ns, meaning) #id,
#include "base/guest/host_costs.def"
#undef VRANK_HOST_COST
};

template <typename T>
bool ParseNumber(const std::string& text, T* value) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

void AddStragglerFlag(CLI::App* app, std::vector<std::string>* stragglers) {
  app->add_option("--straggler", *stragglers)->take_all()->allow_extra_args(false);
}

void ImplyLauncher(const std::vector<std::string>& program, JobFlags* flags) {
  flags->launcher |= emulator::RecognizeLauncher(program).has_value();
}

void AddRealGpuFlag(CLI::App* app, JobFlags* flags) {
  app->add_flag("--real-gpu", flags->real_gpu);
}

absl::Status CheckRealGpuFlags(const JobFlags& flags) {
  if (flags.real_gpu &&
      !(flags.payload_rules.empty() && flags.recorded_payloads.empty() &&
        flags.record_payloads.empty() && flags.values.empty()))
    return absl::InvalidArgumentError(
        "--real-gpu: no values are seen on a real GPU; leave out --payload, "
        "--recorded-payloads, --record-payloads and --values");
  return absl::OkStatus();
}

void AddJobFlags(CLI::App* app, JobFlags* flags) {
  app->add_option("--layout", flags->layout);
  app->add_option("--group", flags->groups)->take_all()->allow_extra_args(false);
  Reads(app->add_option("--gpu", flags->gpu));
  Reads(app->add_option("--cluster", flags->cluster));
  app->add_flag("--launcher", flags->launcher);
  app->add_option("--payload", flags->payload_rules);
  Reads(app->add_option("--recorded-payloads", flags->recorded_payloads));
  Writes(app->add_option("--record-payloads", flags->record_payloads));
  app->add_option("--ranks-per-node", flags->ranks_per_node)
      ->check(CLI::Range(1, 1024));
  Reads(app->add_option("--kernels", flags->kernels)
            ->take_all()
            ->allow_extra_args(false));
  Reads(app->add_option("--values", flags->values));
  Reads(app->add_option("--kernel-times", flags->kernel_times)
            ->take_all()
            ->allow_extra_args(false));
  app->add_option("--host-cost", flags->host_costs)
      ->take_all()
      ->allow_extra_args(false);
  app->add_option("--max-assumed", flags->max_assumed);
  app->add_option("--iteration-range", flags->iteration_range);
  app->add_option("--hang-after", flags->hang_after_s)->check(CLI::Range(0.0, 1e7));
  app->add_option("--failure-grace", flags->failure_grace_s)
      ->check(CLI::Range(0.0, 1e7));
  Fills(app->add_option("--log-dir", flags->log_dir));
  app->add_flag("--json", flags->json);
  app->add_flag("--quiet", flags->quiet);
}

absl::StatusOr<std::pair<size_t, uint32_t>> ParseHostCost(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  uint32_t ns = 0;
  std::string known;
  for (size_t row = 0; row < std::size(kHostCostIds); ++row) {
    const std::string flag_name = FlagName(kHostCostIds[row]);
    known += (known.empty() ? "" : ", ") + flag_name;
    if (name != flag_name)
      continue;
    if (equals == std::string::npos || !ParseNumber(text.substr(equals + 1), &ns))
      return absl::InvalidArgumentError(fmt::format(
          "--host-cost '{}': give {}=NS with whole nanoseconds", text, flag_name));
    return std::pair(row, ns);
  }
  return absl::InvalidArgumentError(fmt::format(
      "--host-cost '{}': there is no cost '{}'; there are {}", text, name, known));
}

std::optional<emulator::WorkFactor> ParseFactor(std::string digits) {
  emulator::WorkFactor factor;
  if (const size_t point = digits.find('.'); point != std::string::npos) {
    const size_t decimals = digits.size() - point - 1;
    if (decimals > 6)
      return std::nullopt;
    digits.erase(point, 1);
    for (size_t i = 0; i < decimals; ++i)
      factor.denominator *= 10;
  }
  // Eight digits keep the product with a kernel of 25 hours within 64 bits.
  if (digits.size() > 8 || !ParseNumber(digits, &factor.numerator) ||
      factor.numerator <= 0)
    return std::nullopt;
  const int64_t divisor = std::gcd(factor.numerator, factor.denominator);
  factor.numerator /= divisor;
  factor.denominator /= divisor;
  return factor;
}

absl::StatusOr<std::pair<int32_t, emulator::WorkFactor>> ParseStraggler(
    const std::string& text, int32_t world_size) {
  const absl::Status wrong = absl::InvalidArgumentError(fmt::format(
      "--straggler '{}': give RANK=FACTOR with a rank below {} and a factor "
      "like 1.7, above 0, with at most six decimals",
      text, world_size));
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    return wrong;
  int32_t rank = 0;
  if (!ParseNumber(text.substr(0, equals), &rank) || rank < 0 || rank >= world_size)
    return wrong;
  const auto factor = ParseFactor(text.substr(equals + 1));
  if (!factor.has_value())
    return wrong;
  return std::pair(rank, *factor);
}

absl::StatusOr<std::map<int32_t, emulator::WorkFactor>> ParseStragglers(
    const std::vector<std::string>& texts, int32_t world_size) {
  std::map<int32_t, emulator::WorkFactor> factors;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const auto straggler, ParseStraggler(text, world_size));
    if (!factors.insert(straggler).second)
      return absl::InvalidArgumentError(
          fmt::format("--straggler '{}': rank {} has a factor already; give one", text,
                      straggler.first));
  }
  return factors;
}

absl::StatusOr<RankList> ParseRankFlag(const std::string& flag, const std::string& text,
                                       int32_t world_size) {
  absl::StatusOr<RankList> list = ParseRankList(text, world_size);
  if (!list.ok())
    return absl::Status(
        list.status().code(),
        fmt::format("{}: {}", flag, std::string(list.status().message())));
  return list;
}

absl::StatusOr<double> ParsePercent(const std::string& text) {
  std::string number = text;
  if (!number.empty() && number.back() == '%')
    number.pop_back();
  double percent = 0;
  if (!ParseNumber(number, &percent) || !(percent >= 0) || percent > 100)
    return absl::InvalidArgumentError(
        fmt::format("--max-assumed '{}': give a percentage from 0 to 100", text));
  return percent / 100;
}

}  // namespace vrank::tools
