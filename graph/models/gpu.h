// A GPU chosen by `--gpu`: what programs see of it and what the cost models need.
//
// The description is a file (data/gpus/*.textproto), so a GPU that nobody owns yet can
// be tried by writing one.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_MODELS_GPU_H_
#define VRANK_GRAPH_MODELS_GPU_H_

#include <string>

#include <absl/status/statusor.h>

#include "base/guest/protocol.h"
#include "graph/models/gpu.pb.h"

namespace vrank::graph {

struct Gpu {
  std::string short_name;  // "h100-sxm5-80gb": the file's name
  GpuDescription description;
  protocol::GpuProperties properties;  // what guests are told
};

// `name_or_path`: the name or an alias of a description in DATA_DIR/gpus ("h100"), or a
// file. An error names every problem of the file, or the names that exist.
absl::StatusOr<Gpu> LoadGpu(const std::string& name_or_path,
                            const std::string& data_dir);

// Checks a description and fills in `properties`.
absl::StatusOr<Gpu> MakeGpu(std::string short_name, GpuDescription description);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_GPU_H_
