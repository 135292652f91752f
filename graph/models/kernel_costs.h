// What described kernels read, write and compute: the cost file, compiled.
//
// A cost file (kernel_costs.proto) gives bytes and FLOPs as expressions over the launch
// and the kernel's scalar arguments, never durations. Expressions are compiled once,
// when the file is read, so that a typing error is found before a run starts.
//
// Thread rule: one thread; evaluation writes the variables of the expressions.

#ifndef VRANK_GRAPH_MODELS_KERNEL_COSTS_H_
#define VRANK_GRAPH_MODELS_KERNEL_COSTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/models/argument_fields.h"
#include "graph/models/kernel_costs.pb.h"

namespace vrank::graph {

struct Launch {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  // Of the GPU.
  uint32_t multiprocessors = 1;
  uint32_t compute_major = 0;
};

class KernelCosts {
 public:
  static constexpr int kMaxArguments = 64;
  static constexpr size_t kMaxCaptures = 9;
  // Of bytes or FLOPs of one launch: a day of a GPU with 8 TB/s, and more than any
  // memory holds; a larger number is a mistake in an expression.
  static constexpr double kMost = 1e18;

  // One entry of the file.
  struct Entry {
    uint32_t index = 0;
    ComputeUnit unit = VECTOR_FP32;
    std::vector<uint32_t> arguments;  // positions that its expressions use, ascending
    std::vector<ArgumentField> fields;
    double unhidden = 0;
    bool lists = false;        // works on lists of tensors
    bool may_not_fit = false;  // see Strictness
  };
  // Of entries whose kernel has other parameters than they say, or for whose unit the
  // GPU has no rate.
  enum class Strictness : uint8_t {
    kError,        // the file is wrong
    kUndescribed,  // it was written for another version of the kernel: as if not there
  };
  struct Work {
    double bytes = 0;
    double flops = 0;
    double instructions = 0;  // of all threads
    double flight = 0;        // bytes of a thread; 0: enough
    double exchanges = 0;
    double blocks = 0;     // of the launch that does the work
    double reached = 0;    // share of the unit's peak; 0: the usual
    double issued = 0;     // FLOPs that take time; 0: `flops`
    bool assumed = false;  // the entry's share is a guess for this GPU
  };

  KernelCosts();  // describes nothing
  ~KernelCosts();
  KernelCosts(KernelCosts&&) noexcept;
  KernelCosts& operator=(KernelCosts&&) noexcept;

  // Adds the entries of a file after those already there. `subject` names the file in
  // messages, `lines` where its entries begin, from 1 (may be empty). An error lists
  // every bad entry with its kernel and its expression.
  absl::Status Add(const KernelCostFile& file, const std::string& subject,
                   const std::vector<int>& lines = {},
                   Strictness strictness = Strictness::kError);
  absl::Status AddFile(const std::string& path,
                       Strictness strictness = Strictness::kError);

  // The first entry for a kernel, by its mangled name; nullptr if none describes it.
  // `captures`: what the groups of its regex are worth (kernel_costs.proto).
  const Entry* Find(const std::string& mangled,
                    std::vector<double>* captures = nullptr) const;

  // Evaluates an entry; `values` belong to entry.arguments, then to entry.fields, in
  // that order; `captures` are those that Find gave. An error names file, kernel and
  // expression where the result is no number from 0 to kMost.
  absl::StatusOr<Work> Evaluate(const Entry& entry, const Launch& launch,
                                std::span<const double> values,
                                std::span<const double> captures = {});

  // "'kernels.textproto', line 12: kernel 'softmax'": for messages about an entry.
  std::string Describe(const Entry& entry) const;

 private:
  struct Compiled;
  struct Variables;

  std::unique_ptr<Variables> variables_;
  std::vector<std::unique_ptr<Compiled>> compiled_;
};

// What a group of a regex is worth: a number, or the size of a type in bytes; nullopt
// for anything else.
std::optional<double> CaptureValue(std::string_view text);

// "ns::kernel<float>(float*, int)" for a mangled name; the name itself if not mangled.
std::string Demangle(const std::string& mangled);

// "ns::kernel" for "void ns::kernel<float>(float*, int)": no return type, no template
// arguments, no parameters.
std::string QualifiedName(const std::string& demangled);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_KERNEL_COSTS_H_
