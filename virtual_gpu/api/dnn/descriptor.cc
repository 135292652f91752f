#include "virtual_gpu/api/dnn/descriptor.h"

namespace vrank::gpu::dnn {

size_t BytesOf(AttributeType type) {
  switch (type) {
    case AttributeType::kHandle:
    case AttributeType::kInt64:
    case AttributeType::kDouble:
    case AttributeType::kVoidPointer:
    case AttributeType::kDescriptor:
      return 8;
    case AttributeType::kBoolean:
    case AttributeType::kChar:
      return 1;
    case AttributeType::kFraction:  // two int64_t
      return 16;
    default:  // enumerations, int32_t and float
      return type >= AttributeType{} && type <= AttributeType::kLast ? 4 : 0;
  }
}

const std::vector<std::shared_ptr<Descriptor>>& Descriptor::Links(
    AttributeName name) const {
  static const std::vector<std::shared_ptr<Descriptor>> none;
  const Attribute* const attribute = Find(name);
  return attribute == nullptr ? none : attribute->links;
}

}  // namespace vrank::gpu::dnn
