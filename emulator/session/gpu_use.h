// Whether the real ranks have given their GPUs work.
//
// A rank may be idle on purpose, as a program that only queries the GPU is: that is a
// note for the user. Where all ranks are idle there is no result, which is an error.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_GPU_USE_H_
#define VRANK_EMULATOR_SESSION_GPU_USE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "emulator/world/world.h"

namespace vrank::emulator {

class GpuUse {
 public:
  using OnNote = std::function<void(const std::string&)>;

  // `world` outlives it.
  GpuUse(const World* world, OnNote on_note)
      : world_(world), on_note_(std::move(on_note)) {}

  // The rank is about to be closed.
  void Closing(const RealRank& rank);
  // The job is over: an error where no rank has worked. It replaces the notes.
  absl::Status CheckResult();
  // Notes each rank that has ended without work, once.
  void NoteUnused();

 private:
  bool AnyWorked() const;

  const World* const world_;
  const OnNote on_note_;
  std::vector<int32_t> unused_;  // ranks that ended without work, not noted yet
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_GPU_USE_H_
