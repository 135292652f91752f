// Reads what nccl-tests prints (all_reduce_perf and the others; nccl-tests, README.md
// and src/common.cu): the table of sizes and times, and from the lines before it how
// many ranks took part on how many hosts.
//
// The operation stands in the log ("Collective test starting", which not all versions
// print), in the name of the file, or is stated by the caller.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_CALIBRATION_NCCL_TESTS_LOG_H_
#define VRANK_GRAPH_CALIBRATION_NCCL_TESTS_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace vrank::graph {

// One table of a log.
struct MeasuredTable {
  std::string file;
  int line = 0;           // of its first row
  std::string operation;  // nccl-tests' name: "all_reduce", "alltoall", "sendrecv"
  int64_t ranks = 0, hosts = 0;
  struct Row {
    uint64_t bytes = 0;  // of the buffer with the data of all ranks
    double us = 0;       // out of place
  };
  std::vector<Row> rows;  // in the order of the log
};

// Every table of the log. `operation`: empty where the log or its name says it. Fails
// where there is no table, or one whose operation or ranks are not stated.
absl::StatusOr<std::vector<MeasuredTable>> ReadNcclTestsLog(
    const std::string& file, const std::string& text, const std::string& operation);

// The operations that nccl-tests has and that can be calibrated.
const std::vector<std::string>& NcclTestsOperations();

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_CALIBRATION_NCCL_TESTS_LOG_H_
