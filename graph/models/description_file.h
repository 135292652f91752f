// Finds the text-proto files that describe GPUs, clusters and kernels, and collects
// what is wrong with one.
//
// A description is named either by its file or, for those that come with vrank, by its
// name: "h100-sxm5-80gb" is gpus/h100-sxm5-80gb.textproto in the data folder.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_MODELS_DESCRIPTION_FILE_H_
#define VRANK_GRAPH_MODELS_DESCRIPTION_FILE_H_

#include <string>
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
class Problems {
 public:
  explicit Problems(std::string subject) : subject_(std::move(subject)) {}
  void Add(std::string problem) { problems_.push_back(std::move(problem)); }
  // Adds "`field` must be positive" unless it is.
  void RequirePositive(double value, const char* field);
  void RequireFraction(double value, const char* field);
  void RequireNotNegative(double value, const char* field);
  // OK, or InvalidArgument: "subject: problem; problem; ...".
  absl::Status ToStatus() const;

 private:
  std::string subject_;
  std::vector<std::string> problems_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_DESCRIPTION_FILE_H_
