// How entry points tell the virtual GPU of the program's calls.
//
// An entry point opens a CallScope around its work; while nobody listens that is a load
// and a branch. Scopes nest: the outermost one of a thread is the call that a profiler
// reports (ActivityCall), others are only told at once (ActivityListener::OnEnter).
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_ACTIVITY_TAP_H_
#define VRANK_VIRTUAL_GPU_CORE_ACTIVITY_TAP_H_

#include <atomic>
#include <cstdint>

namespace vrank::gpu {

class ActivityTap {
 public:
  bool listening() const { return listening_.load(std::memory_order_relaxed); }

  // A call of the CUDA runtime or driver begins and ends on the calling thread.
  // `function` lives as long as the process; `parameters` as long as the call: CUPTI's
  // struct of them, nullptr where it is not modelled.
  virtual void Enter(bool is_driver, const char* function, const void* parameters) = 0;
  virtual void Exit(int32_t result) = 0;

 protected:
  ~ActivityTap() = default;
  std::atomic<bool> listening_{false};
};

class CallScope {
 public:
  CallScope(ActivityTap* tap, bool is_driver, const char* function,
            const void* parameters = nullptr)
      : tap_(tap != nullptr && tap->listening() ? tap : nullptr) {
    if (tap_ != nullptr) [[unlikely]]
      tap_->Enter(is_driver, function, parameters);
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope() {
    if (tap_ != nullptr) [[unlikely]]
      tap_->Exit(result_);
  }

  // Notes what the call returns.
  template <typename Result>
  Result Leave(Result result) {
    result_ = static_cast<int32_t>(result);
    return result;
  }

 private:
  ActivityTap* const tap_;
  int32_t result_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ACTIVITY_TAP_H_
