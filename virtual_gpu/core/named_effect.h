// What launches of a kernel that is recognised by its name do to memory.
//
// An object is of one kernel and keeps what the name states. NewNamedEffect chooses it
// once per kernel by the rules of named_effects.def: a new kind of kernel is one file
// and one row there.
//
// Thread rule: constant; the GPU's lock guards the contents.

#ifndef VRANK_VIRTUAL_GPU_CORE_NAMED_EFFECT_H_
#define VRANK_VIRTUAL_GPU_CORE_NAMED_EFFECT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "virtual_gpu/core/gpu_types.h"

namespace vrank::gpu {

class Contents;

class NamedEffect {
 public:
  virtual ~NamedEffect() = default;

  // Before the machine code is tried: writes what follows exactly from the parameters
  // and from what memory contains. False: it does not follow; nothing was written.
  virtual bool Compute(const KernelLaunch&, Contents&) const { return false; }

  // Where nothing has computed the launch: writes what it writes and no more, with
  // values where its inputs are known. False: the parameters do not state it; nothing
  // was written.
  virtual bool Write(const KernelLaunch&, Contents&) const { return false; }

  // Bytes that the launch reads and writes, where memory that its parameters reach is
  // no measure of them.
  virtual std::optional<uint64_t> DataBytes(const KernelLaunch&) const {
    return std::nullopt;
  }

  // Completes the parameters of a launch as they are recorded, `bytes` of them, by what
  // stands in device memory.
  virtual void CompleteArguments(const KernelLaunch&, Contents&,
                                 unsigned char* /*arguments*/,
                                 uint32_t /*bytes*/) const {}

  // Calls `visit` with the place of each 8-byte word of a structure among the
  // parameters that the launch uses as an address. False: any of its words may be one.
  // Of a list of tensors, words beyond those hold what was on the caller's stack, old
  // addresses among it.
  virtual bool ForListedWords(const KernelLaunch&, uint32_t /*parameter*/,
                              const unsigned char* /*structure*/, uint32_t /*bytes*/,
                              const std::function<void(uint32_t)>& /*visit*/) const {
    return false;
  }
};

// nullptr: no rule matches the name.
std::unique_ptr<const NamedEffect> NewNamedEffect(std::string_view mangled);

// The rules. Each returns nullptr where the name is of another kernel.
#define VRANK_NAMED_EFFECT(rule) \
  std::unique_ptr<const NamedEffect> rule(std::string_view mangled);
#include "virtual_gpu/core/named_effects.def"
#undef VRANK_NAMED_EFFECT

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_NAMED_EFFECT_H_
