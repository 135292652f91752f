// Prices the work of a rank: kernels, matrix multiplies, copies and memsets.
//
// Times that were recorded on a real GPU come first (recorded_times.h). Then four
// sources, best first:
//   1. matrix multiplies by a roofline over their shape and types,
//   2. kernels that a cost file describes, by the same roofline over bytes and FLOPs,
//   3. kernels whose machine code tells what a thread does (base/guest/thread_work.h),
//   4. all other kernels from their launch geometry alone: a number of bytes per
//   thread.
//      That is an assumption, marked as such and listed by name; no kernel is free. In
//      the ledger such a launch weighs as reading all that it can reach, at least.
//
// A program launches the same few kernels with the same few shapes a million times, so
// a price is computed once per (kernel, grid, block, arguments that its expressions
// use).
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_MODELS_KERNEL_MODEL_H_
#define VRANK_GRAPH_MODELS_KERNEL_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include "base/guest/kernel_signature.h"
#include "base/guest/protocol.h"
#include "graph/models/gpu.h"
#include "graph/models/kernel_costs.h"
#include "graph/models/recorded_times.h"
#include "graph/models/roofline.h"

namespace vrank::graph {

struct KernelModelOptions {
  // Device memory that a thread of an undescribed kernel is assumed to read and write:
  // an element-wise operation in fp32 with two inputs, one output and one more access.
  uint64_t assumed_bytes_per_thread = 16;
};

// A kernel whose price is assumed, for the report.
struct AssumedKernel {
  std::string name;  // demangled
  uint64_t launches = 0;
  int64_t total_ns = 0;
  int64_t unseen_ns = 0;  // WorkCost::unseen_ns
};

class KernelModel {
 public:
  using KernelId = uint32_t;

  KernelModel(Gpu gpu, KernelCosts costs, KernelModelOptions options = {});

  // Asked before the model; nullptr: nothing was recorded. `times` outlives the model.
  // REQUIRES: no kernel was priced yet.
  void UseRecordedTimes(const RecordedTimes* times) { recorded_ = times; }

  // Makes a kernel known by its mangled name; the same name gives the same id. Fails
  // where its cost entry uses an argument that the name does not tell the place of.
  absl::StatusOr<KernelId> Define(const std::string& mangled);

  // `arguments`: the bytes that follow the record.
  // REQUIRES: id came from Define.
  absl::StatusOr<WorkCost> Kernel(KernelId id, const protocol::Kernel& launch,
                                  std::span<const std::byte> arguments);
  WorkCost Gemm(const protocol::Gemm& gemm) const {
    return GemmCost(gpu_.description, gemm);
  }
  WorkCost Copy(const protocol::Copy& copy) const {
    return CopyCost(gpu_.description, copy);
  }
  WorkCost Memset(const protocol::Memset& memset) const {
    return MemsetCost(gpu_.description, memset.bytes);
  }

  // Kernels priced by assumption, those that may take the longest first, then by name.
  std::vector<AssumedKernel> assumed() const;

  const Gpu& gpu() const { return gpu_; }

 private:
  // Arguments that one entry may use; more make the entry an error.
  static constexpr size_t kMaxUsedArguments = 8;
  // Words of a key before the arguments.
  static constexpr size_t kLaunchWords = 5;

  // What a price depends on: the launch, and the raw bits of the arguments used.
  struct Key {
    std::array<uint64_t, kLaunchWords + kMaxUsedArguments> words = {};
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine_contiguous(std::move(state), key.words.data(),
                                   key.words.size());
    }
  };
  struct KnownKernel {
    std::string mangled;
    const KernelCosts::Entry* entry = nullptr;  // nullptr: not described
    std::vector<KernelParameter> used;          // places of entry->arguments
    std::vector<double> captures;               // of the entry's regex
    Key last_key;
    WorkCost last_cost;
    bool has_last = false;
    absl::flat_hash_map<Key, WorkCost> prices;
    uint64_t assumed_launches = 0;
    int64_t assumed_ns = 0, unseen_ns = 0;
  };

  // Finds the places of what the kernel's entry uses.
  absl::Status FindArguments(KnownKernel* kernel) const;
  static absl::StatusOr<Key> MakeKey(const KnownKernel& kernel,
                                     const protocol::Kernel& launch,
                                     std::span<const std::byte> arguments);
  absl::Status PriceOnce(KnownKernel* kernel, const protocol::Kernel& launch,
                         std::span<const std::byte> arguments);
  absl::StatusOr<WorkCost> Price(const KnownKernel& kernel,
                                 const protocol::Kernel& launch, const Key& key);
  absl::StatusOr<WorkCost> ModelPrice(const KnownKernel& kernel,
                                      const protocol::Kernel& launch, const Key& key);

  Gpu gpu_;
  KernelCosts costs_;
  KernelModelOptions options_;
  const RecordedTimes* recorded_ = nullptr;
  std::vector<KnownKernel> kernels_;
  absl::flat_hash_map<std::string, KernelId> ids_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_KERNEL_MODEL_H_
