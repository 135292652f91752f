// .vkernels: how long kernels took on a real GPU, by name and launch.
//
// Collected from traces, used in place of the cost model wherever it has the very
// launch (name, grid, block, dynamic shared bytes). A table is of one GPU and refuses
// to be used for another; times of a virtual GPU are a model's and never get in.
//
// Thread rule: const methods from any thread.

#ifndef VRANK_GRAPH_FILE_KERNEL_TABLE_H_
#define VRANK_GRAPH_FILE_KERNEL_TABLE_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/models/recorded_times.h"

namespace vrank::graph {

class KernelTable : public RecordedTimes {
 public:
  struct Key {
    std::string name;  // mangled
    std::array<uint32_t, 3> grid{}, block{};
    uint32_t shared_bytes = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Row {
    uint64_t count = 0;
    int64_t median_ns = 0;
    int64_t min_ns = 0;
    double mean_ns = 0;
  };

  explicit KernelTable(std::string gpu) : gpu_(std::move(gpu)) {}

  // A launch that took so long; Finish makes rows of them.
  void Add(const Key& key, int64_t ns) { samples_[key].push_back(ns); }
  void AddSource(const std::string& file) { sources_.insert(file); }
  void Finish();

  // Rows of both; of a launch that both have, counts add up, and the median is that of
  // the one with more launches (the samples are gone). Fails for another GPU.
  absl::Status Merge(const KernelTable& other);

  // Fails unless the table is of that GPU.
  absl::Status CheckGpu(const std::string& gpu) const;

  // The median: a time that was seen, and that outliers do not move.
  std::optional<int64_t> Find(const std::string& mangled, const uint32_t (&grid)[3],
                              const uint32_t (&block)[3],
                              uint32_t shared_bytes) const override;

  const std::string& gpu() const { return gpu_; }
  const std::set<std::string>& sources() const { return sources_; }
  const std::map<Key, Row>& rows() const { return rows_; }

  // Every broken file is one error: "kernel table 'h100.vkernels': ...".
  static absl::StatusOr<KernelTable> Parse(const std::string& subject,
                                           const std::string& bytes);
  std::string Serialize() const;
  static absl::StatusOr<KernelTable> Read(const std::string& path);
  absl::Status Write(const std::string& path) const;

 private:
  std::string gpu_;
  std::set<std::string> sources_;
  std::map<Key, Row> rows_;
  std::map<Key, std::vector<int64_t>> samples_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FILE_KERNEL_TABLE_H_
