// Where the parameters of a kernel lie, from its mangled name alone.
//
// cudaLaunchKernel gets an array of pointers and no sizes. The name that the compiler
// registered ("_Z4axpyfPKfPfm") says the types; the parameters are laid out like the
// members of a struct (CUDA C++ Programming Guide, "Kernel parameters": device
// alignment rules). A kernel's cost may depend on its integers, and its pointers say
// which memory it may read and write.
//
// Thread rule: pure functions.

#ifndef VRANK_BASE_GUEST_KERNEL_SIGNATURE_H_
#define VRANK_BASE_GUEST_KERNEL_SIGNATURE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/guest/mangled_name.h"

namespace vrank {

struct KernelParameter {
  uint32_t offset;
  uint32_t size;  // 0: not known (a class passed by value)
  ParameterKind kind;
  bool is_signed;  // kInteger
};

struct KernelSignature {
  std::vector<KernelParameter> parameters;  // at least `count`
  uint32_t count = 0;                       // parameters whose kind is known
  // The first `known` of them have an offset and a size. The kinds after that are
  // right, their offsets are 0.
  uint32_t known = 0;
  uint32_t bytes = 0;     // of the known ones
  bool complete = false;  // every parameter is known
};

// Fills in what can be told. True if that is all: signature->complete. False for names
// without a signature (extern "C") and where a size is not known.
inline bool ParseKernelSignature(std::string_view mangled, KernelSignature* signature) {
  *signature = {};
  MangledName name(mangled);
  const bool parsed = name.Parse();
  signature->count = name.parameters();
  signature->parameters.resize(signature->count);
  bool known = true;
  for (uint32_t i = 0; i < signature->count; ++i) {
    const ParameterType& type = name.parameter(i);
    KernelParameter& parameter = signature->parameters[i];
    parameter = {0, type.size, type.kind, type.is_signed};
    known = known && type.size > 0;
    if (!known)
      continue;
    const uint32_t mask = type.alignment - 1;
    parameter.offset = (signature->bytes + mask) & ~mask;
    signature->bytes = parameter.offset + type.size;
    ++signature->known;
  }
  signature->complete = parsed && known;
  return signature->complete;
}

// "axpy" for "_ZN3lib4axpyIfEEvT_PKS1_": what people call the kernel. A name that is
// not mangled is returned as it is.
inline std::string_view KernelBaseName(std::string_view mangled) {
  MangledName name(mangled);
  name.Parse();
  return name.base_name().empty() ? mangled : name.base_name();
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_KERNEL_SIGNATURE_H_
