// Batches of copies, as cudart and libcuda describe them: structures of two names whose
// members are the same.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_API_BATCH_COPY_H_
#define VRANK_VIRTUAL_GPU_API_BATCH_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu {

// cudaMemcpySrcAccessOrder and CUmemcpySrcAccessOrder: in stream order, during the
// call, or any time. Sources are read when the call is issued, which fits all of them.
inline bool IsAccessOrder(int order) {
  return order >= 1 && order <= 3;
}

// cudaMemcpyBatchAsync: "the first entry in attrsIdxs must always be 0. Also, each
// entry must be greater than the previous entry and the last entry should be less than
// count. Furthermore, numAttrs must be lesser than or equal to count."
template <typename Attributes>
bool AreAttributes(const Attributes* attributes, const size_t* first_copies,
                   size_t attribute_count, size_t copy_count) {
  if (attributes == nullptr || first_copies == nullptr || attribute_count == 0 ||
      attribute_count > copy_count || first_copies[0] != 0)
    return false;
  for (size_t i = 0; i < attribute_count; ++i)
    if (!IsAccessOrder(attributes[i].srcAccessOrder) || first_copies[i] >= copy_count ||
        (i > 0 && first_copies[i] <= first_copies[i - 1]))
      return false;
  return true;
}

template <typename Address>
void* AddressOf(Address address) {
  return reinterpret_cast<void*>(address);
}
inline const void* AddressOf(const void* address) {
  return address;
}

// kInvalidValue where the arrays are wrong.
template <typename Target, typename Source, typename Attributes>
Error ReadBatch(const Target* to, const Source* from, const size_t* sizes, size_t count,
                const Attributes* attributes, const size_t* first_copies,
                size_t attribute_count, std::vector<CopyRequest>* requests) {
  if (to == nullptr || from == nullptr || sizes == nullptr || count == 0 ||
      !AreAttributes(attributes, first_copies, attribute_count, count))
    return Error::kInvalidValue;
  for (size_t i = 0; i < count; ++i)
    requests->push_back(
        {.to = AddressOf(to[i]), .from = AddressOf(from[i]), .row_bytes = sizes[i]});
  return Error::kSuccess;
}

// cudaMemcpy3DOperand: "rowLength [...] must either be zero or be greater than or equal
// to the width of the copy", and so on; zero is "tightly packed".
template <typename Operand>
Error ReadOperand(const Operand& from, uint64_t width, uint64_t height, void** address,
                  uint64_t* pitch, uint64_t* plane) {
  constexpr int kPointer = 1;
  constexpr int kArray = 2;
  if (from.type != kPointer)
    return from.type == kArray ? Error::kNotSupported : Error::kInvalidValue;
  const auto& pointer = from.op.ptr;
  if ((pointer.rowLength != 0 && pointer.rowLength < width) ||
      (pointer.layerHeight != 0 && pointer.layerHeight < height))
    return Error::kInvalidValue;
  *address = AddressOf(pointer.ptr);
  *pitch = pointer.rowLength == 0 ? width : pointer.rowLength;
  *plane = *pitch * (pointer.layerHeight == 0 ? height : pointer.layerHeight);
  return Error::kSuccess;
}

// `failed`: which operation is wrong, where one is.
template <typename Operation>
Error ReadBatch3D(const Operation* operations, size_t count, uint64_t flags,
                  std::vector<CopyRequest>* requests, size_t* failed) {
  if (operations == nullptr || count == 0 || flags != 0)
    return Error::kInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    *failed = i;
    const Operation& one = operations[i];
    // "The width, height and depth [...] must not be zero."
    if (one.extent.width == 0 || one.extent.height == 0 || one.extent.depth == 0 ||
        !IsAccessOrder(one.srcAccessOrder))
      return Error::kInvalidValue;
    CopyRequest request{.row_bytes = one.extent.width,
                        .rows = one.extent.height,
                        .depth = one.extent.depth};
    void* from = nullptr;
    VRANK_RETURN_IF_FAILED(ReadOperand(one.src, request.row_bytes, request.rows, &from,
                                       &request.from_pitch, &request.from_plane));
    VRANK_RETURN_IF_FAILED(ReadOperand(one.dst, request.row_bytes, request.rows,
                                       &request.to, &request.to_pitch,
                                       &request.to_plane));
    request.from = from;
    requests->push_back(request);
  }
  *failed = SIZE_MAX;
  return Error::kSuccess;
}

// "Must not be legacy NULL stream."
inline bool IsBatchStream(const void* stream) {
  return stream != nullptr && stream != kLegacyStream;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_BATCH_COPY_H_
