// Results of `vrank compare` that were edited by hand or by chance.

#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/base/mutate.h"
#include "tests/tools/fuzz_rounds.h"
#include "tools/compare/comparison_limit.h"
#include "tools/report/comparison_report.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

Json Replay() {
  return Json::parse(R"({
    "schema": "vrank.replay/1", "world_size": 8, "layout": "dp=8", "gpu": "h100",
    "cluster": "hgx", "iteration_time_ns": [9000, 1000], "iteration": 1,
    "classes": [{"ranks": "0-7", "iteration_time_ns": [9000, 1000],
      "breakdown": {"compute": 500, "exposed": {"all_gather": 300, "all_reduce": 5},
                    "bubble": 7, "copies": 1, "host_bound": 2},
      "peak_memory_bytes": 1000000}],
    "critical_path": {"length_ns": 1000, "contributors": [
      {"kind": "work", "name": "gemm", "time_ns": 500},
      {"kind": "others", "name": "", "time_ns": 1}]},
    "ledger": {"assumed": 0.25}})");
}

Json Emulation() {
  return Json::parse(R"({
    "schema": "vrank.emulate/1", "world_size": 8, "layout": "dp=8", "gpu": "h100",
    "cluster": "hgx", "iteration_time_ns": [9000, 1000],
    "iteration_source": {"evidence": "annotation", "regularity": 1, "complete": true},
    "failure": null, "memory": {"peak_bytes": 5000, "peak_rank": 0},
    "provenance": {"command": "train", "program": "train:1", "options": "",
                   "software": {"PyTorch": "2.11.0"}},
    "ranks": [{"rank": 0, "iteration_time_ns": [9000, 1000], "waited_ns": 5,
      "peak_memory_by_owner_bytes": {"program": 4000}, "flops": 10,
      "allocator": {"peak_allocated_bytes": 3000, "peak_contents": {"rows": [
        {"taken": "forward", "earlier_iteration": false, "bytes": 3000,
         "launches": [{"kernel": "gemm", "bytes": 2000}]}]}},
      "last_iteration_gpu": {"compute_ns": 700, "exposed_communication_ns": 200,
        "copies_ns": 0, "idle_ns": 100, "overlapped_communication_ns": 3},
      "communication": {"all_reduce": {"calls": 1, "bytes": 8, "time_ns": 9}},
      "host": {"launching kernels": {"calls": 3, "time_ns": 9}}}],
    "kernels": [{"name": "gemm", "count": 2, "time_ns": 500}],
    "ledger": {"assumed": 0.25}})");
}

// Another value in the place of one of the tree's.
void DamageValue(std::mt19937* random, Json* json) {
  Json* at = json;
  while (at->is_structured() && !at->empty() && (*random)() % 6 != 0)
    at =
        &*std::next(at->begin(), static_cast<std::ptrdiff_t>((*random)() % at->size()));
  const Json values[] = {nullptr,
                         true,
                         "text",
                         0,
                         -1,
                         3,
                         1e300,
                         0.5,
                         std::numeric_limits<int64_t>::min(),
                         std::numeric_limits<uint64_t>::max(),
                         int64_t{1} << 60,
                         Json::array(),
                         Json::object(),
                         Json::array({1, 2}),
                         Json::object({{"kind", 1}}),
                         std::string("\x01\x1b[2J<&\"")};
  *at = values[(*random)() % std::size(values)];
}

void Use(const std::string& base, const std::string& updated) {
  const auto one = ReadResult("base.json", base),
             other = ReadResult("new.json", updated);
  for (const auto* result : {&one, &other}) {
    if (!result->ok()) {
      EXPECT_NE(result->status().ToString().find(".json'"), std::string::npos);
    }
  }
  if (!one.ok() || !other.ok())
    return;
  const auto comparison = Compare(*one, *other, true);
  if (!comparison.ok())
    return;
  std::vector<CheckedLimit> checked;
  for (const char* text : {"iteration_time > +2%", "peak_memory > 75GiB"}) {
    const auto limit = ParseLimit(text);
    const auto broken = Broken(*limit, *comparison);
    if (broken.ok())
      checked.push_back({*limit, *broken});
  }
  EXPECT_FALSE(ComparisonText(*comparison, checked).empty());
  EXPECT_TRUE(Json::accept(ComparisonJson(*comparison, checked)));
  EXPECT_FALSE(ComparisonMarkdown(*comparison, checked).empty());
  EXPECT_FALSE(ComparisonJUnit(*comparison, checked).empty());
}

TEST(CompareFuzzTest, NoResultHurts) {
  FuzzRounds([&](std::mt19937* random) {
    const Json sound = (*random)() % 2 == 0 ? Replay() : Emulation();
    Json damaged = sound;
    for (uint32_t changes = (*random)() % 3; changes > 0; --changes)
      DamageValue(random, &damaged);
    const std::string text =
        Mutated(damaged.dump(-1, ' ', false, Json::error_handler_t::replace), 4,
                "{}[]\",:0123456789-eE.\\u", random);
    Use(sound.dump(), text);
    Use(text, text);
  });
}

TEST(CompareFuzzTest, NestingHasNoLimitThatHurts) {
  for (const char* open : {"[", "{\"schema\":", "{\"a\":["}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i)
      text += open;
    EXPECT_FALSE(ReadResult("deep.json", text).ok());
  }
  const std::string deep(1'000'000, '['), end(1'000'000, ']');
  Json json = Replay();
  std::string text = json.dump();
  text.insert(text.size() - 1, ",\"more\":" + deep + end);
  EXPECT_TRUE(ReadResult("deep.json", text).ok());
}

}  // namespace
}  // namespace vrank::tools
