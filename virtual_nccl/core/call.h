// One collective, send or receive: as the program asks for it, and checked.
//
// NCCL's eleven operations differ in few ways: whose buffer goes in, who gets a result,
// and how many times `count` elements each of them is. Shape says it, so that sizes,
// payloads and the in-place rule are computed in one place.
//
// Thread rule: plain values.

#ifndef VRANK_VIRTUAL_NCCL_CORE_CALL_H_
#define VRANK_VIRTUAL_NCCL_CORE_CALL_H_

#include <nccl.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/guest/element_bytes.h"
#include "base/guest/protocol.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_nccl/core/communicator.h"

namespace vrank::nccl {

// An argument of an enumeration type as the number that the caller passed. It need not
// be one of the enumerators, and reading such a one as the enumeration is undefined.
template <typename Enumeration>
int NumberOf(const Enumeration& argument) {
  return std::bit_cast<int>(argument);
}

// The arguments of an entry point.
struct Request {
  const char* function = "";  // "ncclAllReduce", for messages
  // Sends and receives have no operation.
  enum Kind { kCollective, kSend, kReceive } kind = kCollective;
  protocol::CollectiveKind operation = protocol::CollectiveKind::kAllReduce;
  const void* send = nullptr;  // kSend: the buffer
  void* receive = nullptr;     // kReceive: the buffer
  size_t count = 0;
  // Numbers, since callers may pass what is no ncclDataType_t or ncclRedOp_t.
  int type = ncclInt8;
  int reduction = ncclSum;
  int root = 0;  // sends and receives: the peer
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
};

// What an operation does with its buffers. "Each": of every member.
struct Shape {
  bool rooted;            // has a root argument
  bool reduces;           // has a reduction argument
  bool root_contributes;  // only the root's send buffer goes in
  bool root_receives;     // only the root gets a result
  bool sends_all;         // the send buffer holds `count` elements for each member
  bool receives_all;      // the receive buffer holds `count` elements of each member
};

const Shape& ShapeOf(protocol::CollectiveKind operation);
using protocol::ElementBytes;

// A checked request, ready to be launched.
struct Call {
  Communicator* communicator;
  const char* function;
  Request::Kind kind;
  protocol::CollectiveKind operation;
  protocol::ElementType type;
  protocol::Reduction reduction;
  const void* send;
  void* receive;
  uint64_t count;
  uint32_t root;  // sends and receives: the peer
  VirtualGpu::Stream stream;
  uint64_t capture = 0;      // that takes place on the stream; 0: none
  UserReduction multiplier;  // kPreMulSum: as it was when the call was made

  bool IsCollective() const { return kind == Request::kCollective; }
  // `count` elements.
  uint64_t bytes() const { return count * ElementBytes(type); }
  // What this member puts in. Where the operation takes the root's buffer only, another
  // member offers what its receive buffer holds: the value of a virtual root that holds
  // what its peers hold.
  struct Buffer {
    const void* address;
    uint64_t bytes;
  };
  Buffer Contribution() const;
  // Of this member's receive buffer; 0 where it is left alone.
  uint64_t ResultBytes() const;
  // By NCCL's definition for the operation; sends and receives: false.
  bool InPlace() const;
};

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_CALL_H_
