// Blocks, their warps and barriers, and constant bank 0.

#include "virtual_gpu/code/interpreter.h"

#include <cfenv>
#include <memory>

#include "virtual_gpu/code/decoder.h"
#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {
namespace {

// Instructions that a warp runs before the next one's turn.
constexpr uint32_t kTurn = 4096;

// What is not put there is unknown.
void FillBank0(const MachineCode& code, const InterpretedLaunch& launch,
               KnownBytes* bank) {
  const ConstantLayout layout = code.layout();
  bank->Reset(code.parameter_base + code.parameter_bytes);
  bank->Put(layout.block, launch.block, sizeof launch.block);
  bank->Put(layout.grid, launch.grid, sizeof launch.grid);
  bank->Put(layout.stack, &code.local_bytes, sizeof code.local_bytes);
  const uint64_t shared_window = uint64_t{MachineCode::kSharedWindow} << 32,
                 local_window = uint64_t{MachineCode::kLocalWindow} << 32;
  if (code.architecture() < 90)
    bank->Put(layout.shared_window, &shared_window, sizeof shared_window);
  bank->Put(layout.local_window, &local_window, sizeof local_window);
  // Carries no address: any value does.
  const uint64_t descriptor = 0;
  bank->Put(layout.descriptor, &descriptor, sizeof descriptor);
  if (launch.parameter_bytes != 0)
    bank->Put(code.parameter_base, launch.parameters, launch.parameter_bytes);
}

// The arithmetic that a program chose for its thread (rounding, subnormal numbers
// flushed) is not the GPU's.
class FloatEnvironment {
 public:
  FloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

class Block {
 public:
  Block(LaunchState* launch, const std::array<uint32_t, 3>& index) : launch_(launch) {
    state_.index = index;
    // It begins with any value, as registers do (warp.cc): correct code may compare
    // what it never wrote, and does not depend on it.
    const size_t shared =
        size_t{launch->code.shared_bytes} + launch->launch.dynamic_shared;
    state_.shared.bytes.assign(shared, 0);
    state_.shared.known.assign(shared, 0xff);
    const uint32_t* const block = launch->launch.block;
    const uint32_t threads = block[0] * block[1] * block[2];
    for (uint32_t first = 0; first < threads; first += kLanes)
      warps_.push_back(std::make_unique<Warp>(launch, &state_, first, threads - first));
  }

  void Run() {
    for (bool exited = false; !exited && !launch_->stopped;) {
      uint64_t done = 0;
      for (const auto& warp : warps_)
        done += warp->Run(kTurn);
      const bool released = ReleaseBarriers();
      exited = true;
      for (const auto& warp : warps_)
        exited = exited && warp->exited();
      if (!exited && done == 0 && !released)
        launch_->Stop(Outcome::Kind::kFault, "its threads wait for each other");
    }
  }

 private:
  bool ReleaseBarriers() {
    bool any = false;
    for (uint32_t i = 0; i < state_.barriers.size(); ++i) {
      BlockState::Barrier& barrier = state_.barriers[i];
      uint32_t expected = barrier.expected;
      if (expected == 0)
        for (const auto& warp : warps_)
          expected += static_cast<uint32_t>(std::popcount(warp->alive()));
      if (barrier.arrived == 0 || barrier.arrived < expected)
        continue;
      if (barrier.reduces) {
        enum : uint32_t { kCount = 0, kAnd = 1, kOr = 2 };
        state_.reduced_count = barrier.true_count;
        state_.reduced_known = barrier.all_known;
        state_.reduced = barrier.reduction == kAnd
                             ? barrier.true_count == barrier.arrived
                             : barrier.true_count != 0;
      }
      barrier = {};
      for (const auto& warp : warps_)
        warp->Release(i);
      any = true;
    }
    return any;
  }

  LaunchState* const launch_;
  BlockState state_;
  std::vector<std::unique_ptr<Warp>> warps_;
};

}  // namespace

Outcome Interpret(MachineCode& code, const InterpretedLaunch& launch,
                  OverlayMemory* memory) {
  LaunchState state{code, launch, *memory, {}, {}, false};
  if (!Decodes(code.architecture())) {
    state.Stop(Outcome::Kind::kNotInterpreted,
               "code of sm_" + std::to_string(code.architecture()));
    return state.outcome;
  }
  FillBank0(code, launch, &state.bank0);
  const FloatEnvironment environment;
  for (uint32_t z = 0; z < launch.grid[2]; ++z)
    for (uint32_t y = 0; y < launch.grid[1]; ++y)
      for (uint32_t x = 0; x < launch.grid[0] && !state.stopped; ++x)
        Block(&state, {x, y, z}).Run();
  return state.outcome;
}

}  // namespace vrank::gpu
