#include "virtual_gpu/core/kernel_names.h"

#include "virtual_gpu/core/grouped_product.h"
#include "virtual_gpu/core/loss_scale.h"
#include "virtual_gpu/core/made_up_choices.h"
#include "virtual_gpu/core/tensor_list_name.h"

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
    code->elements = ParseElementKernel(code->name);
    code->concat = ParseConcatKernel(code->name);
    code->list = ParseTensorList(code->name);
    code->list_copy_bytes = ParseListCopyKernel(code->name);
    code->reduction = ParseReduceKernel(code->name);
    code->updates_loss_scale = UpdatesLossScale(code->name);
    code->top_k = ParseTopK(code->name);
    code->prepares_groups = PreparesGroupedProduct(code->name);
    code->sort = ParseSortKernel(code->name);
  }
  return code->record_name;
}

}  // namespace vrank::gpu
