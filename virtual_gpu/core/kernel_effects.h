// What launches do to the contents of device memory.
//
// A kernel whose machine code or name tells what it computes writes that; another one
// may have written through any pointer that it got. The contents change when the launch
// is issued, which is the stream's order as well.
//
// Owns the interpreter of small launches (launch_interpreter.h); the contents are the
// GPU's. Sizes are in bytes.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_KERNEL_EFFECTS_H_
#define VRANK_VIRTUAL_GPU_CORE_KERNEL_EFFECTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/launch_interpreter.h"
#include "virtual_gpu/core/obligations.h"

namespace vrank::gpu {

// Addresses that a kernel may write through; where those are not all that it may write,
// `blind`. `writer` as in Contents::NameWriter.
struct KernelWrites {
  const char* writer = "";
  std::vector<uint64_t> addresses;
  bool blind = false;
};

class KernelEffects {
 public:
  KernelEffects(Channel* channel, Contents& contents, Obligations& obligations)
      : channel_(channel),
        contents_(contents),
        interpreter_(channel, contents, obligations) {}

  // False: an assertion in the kernel has failed, which TakeAssertion tells of.
  bool Apply(const KernelLaunch& launch);
  std::string TakeAssertion() { return interpreter_.TakeAssertion(); }
  // `writer` lives as long as the process.
  void Apply(const GemmLaunch& launch, const char* writer);
  // A kernel that is launched often with the same arguments: what it may write, found
  // once, and one launch of it. Its values are not computed.
  KernelWrites WritesOf(const KernelLaunch& launch);
  void Apply(const KernelCode& kernel, const KernelWrites& writes);

  // What of a launch's arguments, packed for its record, stands in device memory.
  void CompleteArguments(const KernelLaunch& launch, unsigned char* arguments,
                         uint32_t bytes);

  // Device memory that the kernel can reach: what follows each address among its
  // arguments in the block or allocation that it lies in, once; `all_bytes` where the
  // arguments are not known.
  uint64_t ReachableBytes(const KernelLaunch& launch, uint64_t all_bytes);

 private:
  // How much memory the launch is about, at most.
  uint64_t DataOf(const KernelLaunch& launch);
  void WriteAnywhere(const KernelCode& kernel);
  void WriteBlock(const WrittenBlock& block, const char* writer);

  Channel* const channel_;
  Contents& contents_;
  LaunchInterpreter interpreter_;
  std::vector<std::pair<uint64_t, uint64_t>> reached_;  // by ReachableBytes; to reuse
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_KERNEL_EFFECTS_H_
