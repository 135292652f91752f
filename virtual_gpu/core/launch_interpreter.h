// Launches that are computed: small kernels run by their machine code.
//
// Programs decide by values that the GPU computed. Where a launch is small and all that
// it reads exists, the interpreter (virtual_gpu/code) runs it, and what it writes
// exists as well. Otherwise its writes are marked as what nothing has computed.
//
// Most launches of a job are large, or read what nothing has computed. These must cost
// next to nothing: a launch is not tried where one of the same kernel with fewer
// threads was too long, or one with as many threads and the same sizes, where its code
// has an instruction that is not interpreted, and where the parameter whose memory was
// unknown last points to unknown memory again.
//
// Launches that reach little data (masks, lengths, scalars) are what programs decide
// by. They have a budget of their own, which the initialisation of weights cannot use
// up.
//
// It owns what the process has interpreted, in instructions summed over threads.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_LAUNCH_INTERPRETER_H_
#define VRANK_VIRTUAL_GPU_CORE_LAUNCH_INTERPRETER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "base/guest/channel.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/obligations.h"

namespace vrank::gpu {

struct InterpretedLaunch;
struct KernelComputation;

class LaunchInterpreter {
 public:
  LaunchInterpreter(Channel* channel, Contents& contents, Obligations& obligations)
      : channel_(channel), contents_(contents), obligations_(obligations) {}

  // Whether a launch is worth a try. Call it for each launch, which adds to the
  // budgets.
  bool Considers(const KernelLaunch& launch);
  // Runs the launch by its machine code where it is small and all that it reads is
  // known, or will be known as far as the program's work goes: what it writes then
  // exists, or is computed when it is looked at (deferred_launch.h). False: nothing was
  // written. `reachable_bytes`: of device memory. `made_up_by` becomes the writer of
  // what it has written, if it read bytes that are made up; else nullptr. REQUIRES:
  // Considers(launch).
  bool Run(const KernelLaunch& launch, uint64_t data_bytes, const char** made_up_by);
  // An assertion in a launch has failed, and what CUDA prints then.
  bool has_assertion() const { return !assertion_.empty(); }
  std::string TakeAssertion() { return std::exchange(assertion_, {}); }

 private:
  // Where the launch's parameters have the address of what was unknown. Negative: they
  // do not.
  int32_t FindInput(const InterpretedLaunch& launch, KernelComputation& how,
                    uint64_t unknown_address, uint64_t* computed);

  // A launch whose result nobody will know may still fail an assertion by what is known
  // (labels beside scores): it runs for that, within a budget of its own.
  bool ChecksAssertions(const KernelComputation& how, uint64_t threads) const;
  void CheckAssertions(InterpretedLaunch launch, KernelComputation& how,
                       uint64_t threads);

  enum Data { kLittle, kMuch };
  static constexpr uint64_t kMuchBytes = 1 << 20;

  Channel* const channel_;
  Contents& contents_;
  Obligations& obligations_;
  std::string assertion_;
  uint64_t computed_[2] = {};  // by Data; less what launches give back
  uint64_t checked_ = 0;       // likewise, of assertions alone
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_LAUNCH_INTERPRETER_H_
