// Attributes of cublasLt descriptors: numbered fields of a plain struct.
//
// Descriptors are opaque blocks whose size the header fixes (programs may keep them on
// their stack); the struct lies inside. Setting and getting is the same for all of
// them: the size must be that of the field.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_API_BLASLT_ATTRIBUTE_TABLE_H_
#define VRANK_VIRTUAL_GPU_API_BLASLT_ATTRIBUTE_TABLE_H_

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace vrank::gpu {

struct Attribute {
  int number;
  uint32_t offset;
  uint32_t bytes;
};

inline const Attribute* FindAttribute(std::span<const Attribute> table, int number) {
  for (const Attribute& attribute : table) {
    if (attribute.number == number)
      return &attribute;
  }
  return nullptr;
}

inline cublasStatus_t SetAttribute(std::span<const Attribute> table, void* fields,
                                   int number, const void* buffer, size_t bytes) {
  const Attribute* attribute = FindAttribute(table, number);
  if (fields == nullptr || attribute == nullptr || buffer == nullptr ||
      bytes != attribute->bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<char*>(fields) + attribute->offset, buffer, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// `bytes` 0 asks for the size.
inline cublasStatus_t GetAttribute(std::span<const Attribute> table, const void* fields,
                                   int number, void* buffer, size_t bytes,
                                   size_t* written) {
  const Attribute* attribute = FindAttribute(table, number);
  if (fields == nullptr || attribute == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes == 0 ? written == nullptr : buffer == nullptr || bytes != attribute->bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != 0)
    std::memcpy(buffer, static_cast<const char*>(fields) + attribute->offset, bytes);
  if (written != nullptr)
    *written = attribute->bytes;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_BLASLT_ATTRIBUTE_TABLE_H_
