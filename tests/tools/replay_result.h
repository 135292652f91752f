// What `vrank replay --json` prints of a small job.

#ifndef VRANK_TESTS_TOOLS_REPLAY_RESULT_H_
#define VRANK_TESTS_TOOLS_REPLAY_RESULT_H_

#include <cstdint>

#include <nlohmann/json.hpp>

namespace vrank::tools {

// A replay of two classes; the second one's iteration is the longest.
inline nlohmann::ordered_json Replay(int64_t iteration_ns, int64_t compute_ns,
                                     int64_t gather_ns, int64_t peak_bytes,
                                     double assumed = 0) {
  using Json = nlohmann::ordered_json;
  auto one = [&](const char* ranks, int64_t ns, int64_t peak) {
    return Json{{"ranks", ranks},
                {"iteration_time_ns", {9 * ns, ns}},
                {"breakdown",
                 {{"compute", compute_ns},
                  {"exposed", {{"all_gather", gather_ns}, {"all_reduce", 5}}},
                  {"bubble", 7},
                  {"copies", 1},
                  {"host_bound", 2}}},
                {"peak_memory_bytes", peak}};
  };
  return Json{
      {"schema", "vrank.replay/1"},
      {"world_size", 8},
      {"layout", "dp=8"},
      {"gpu", "h100"},
      {"cluster", "hgx"},
      {"iteration_time_ns", {9 * iteration_ns, iteration_ns}},
      {"iteration", 1},
      {"classes",
       {one("0-3", iteration_ns - 1, peak_bytes), one("4-7", iteration_ns, 10)}},
      {"critical_path",
       {{"length_ns", iteration_ns},
        {"contributors",
         {{{"kind", "work"}, {"name", "gemm"}, {"time_ns", compute_ns}},
          {{"kind", "communication"}, {"name", "all_gather"}, {"time_ns", gather_ns}},
          {{"kind", "communication"}, {"name", "all_gather"}, {"time_ns", 3}}}}}},
      {"ledger", {{"assumed", assumed}}}};
}

}  // namespace vrank::tools

#endif  // VRANK_TESTS_TOOLS_REPLAY_RESULT_H_
