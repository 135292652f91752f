#include "virtual_gpu/core/kernel_names.h"

#include "virtual_gpu/core/named_effect.h"

namespace vrank::gpu {

KernelCode* KernelNames::Find(const char* mangled_name) {
  std::lock_guard lock(mutex_);
  auto found = kernels_.find(mangled_name);
  if (found != kernels_.end())
    return found->second.get();
  KernelCode* const made = MakeKernel(mangled_name);
  kernels_.emplace(std::string_view(made->name), made);
  return made;
}

uint32_t KernelNames::NumberOf(KernelCode* code) {
  if (code->record_name == 0) {
    code->record_name = channel_->Name(code->name);
    code->effect = NewNamedEffect(code->name);
  }
  return code->record_name;
}

}  // namespace vrank::gpu
