// Finds the text-proto files that describe GPUs, clusters and kernels, and collects
// what is wrong with one.
//
// A description is named either by its file or, for those that come with vrank, by its
// name: "h100-sxm5-80gb" is gpus/h100-sxm5-80gb.textproto in the data folder.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_MODELS_DESCRIPTION_FILE_H_
#define VRANK_GRAPH_MODELS_DESCRIPTION_FILE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

namespace vrank::graph {

// True if `name_or_path` means a file: it has a '/' or ends in ".textproto".
bool MeansFile(const std::string& name_or_path);

// DIR/KIND/NAME.textproto.
std::string DescriptionPath(const std::string& data_dir, const std::string& kind,
                            const std::string& name);

// Names of the descriptions of a kind, sorted; empty where the folder is missing.
std::vector<std::string> DescriptionNames(const std::string& data_dir,
                                          const std::string& kind);

// Collects what is wrong with a description, so that all of it is reported at once.
//
// Bounds are far beyond any machine. Within them the models' sums and products stay in
// 64 bits.
class Problems {
 public:
  enum class Zero { kAllowed, kRefused };
  static constexpr int64_t kMostNs = 3'600'000'000'000;  // an hour
  static constexpr int64_t kMostStepNs = 1'000'000'000;  // what is paid per member

  explicit Problems(std::string subject) : subject_(std::move(subject)) {}
  void Add(std::string problem) { problems_.push_back(std::move(problem)); }
  // Each adds "`field` must be ..., is ..." unless it is.
  void RequireCount(uint64_t value, const std::string& field, uint64_t most,
                    Zero zero = Zero::kRefused);
  void RequireBytes(uint64_t value, const std::string& field, Zero zero);
  void RequireNs(int64_t value, const std::string& field, Zero zero,
                 int64_t most = kMostNs);
  // 1e9 bytes/s, or 1e12 operations/s.
  void RequireRate(double value, const std::string& field, Zero zero);
  void RequireFraction(double value, const std::string& field);
  // OK, or InvalidArgument: "subject: problem; problem; ...".
  absl::Status ToStatus() const;

 private:
  // `lowest`: above 0.
  void RequireBetween(double value, double lowest, double most, Zero zero,
                      const std::string& field, const char* unit);

  std::string subject_;
  std::vector<std::string> problems_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_DESCRIPTION_FILE_H_
