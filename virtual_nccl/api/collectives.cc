// Chapter "collective communication operations" of nccl.h, and its own reductions.

#include <cstring>

#include "virtual_nccl/api/entry.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/meeting.h"

using namespace vrank::nccl;  // entry points stand outside of any namespace
using vrank::protocol::CollectiveKind;

NCCL_API(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff,
         size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream) {
  return Enqueue({.function = "ncclAllReduce",
                  .operation = CollectiveKind::kAllReduce,
                  .send = sendbuff,
                  .receive = recvbuff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .reduction = NumberOf(op),
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff,
         size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
         cudaStream_t stream) {
  return Enqueue({.function = "ncclAllGather",
                  .operation = CollectiveKind::kAllGather,
                  .send = sendbuff,
                  .receive = recvbuff,
                  .count = sendcount,
                  .type = NumberOf(datatype),
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff,
         size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream) {
  return Enqueue({.function = "ncclReduceScatter",
                  .operation = CollectiveKind::kReduceScatter,
                  .send = sendbuff,
                  .receive = recvbuff,
                  .count = recvcount,
                  .type = NumberOf(datatype),
                  .reduction = NumberOf(op),
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff,
         size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
         cudaStream_t stream) {
  return Enqueue({.function = "ncclBroadcast",
                  .operation = CollectiveKind::kBroadcast,
                  .send = sendbuff,
                  .receive = recvbuff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .root = root,
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype,
         int root, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue({.function = "ncclBcast",
                  .operation = CollectiveKind::kBroadcast,
                  .send = buff,
                  .receive = buff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .root = root,
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count,
         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
         cudaStream_t stream) {
  return Enqueue({.function = "ncclReduce",
                  .operation = CollectiveKind::kReduce,
                  .send = sendbuff,
                  .receive = recvbuff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .reduction = NumberOf(op),
                  .root = root,
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count,
         ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue({.function = "ncclAlltoAll",
                  .operation = CollectiveKind::kAllToAll,
                  .send = sendbuff,
                  .receive = recvbuff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count,
         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue({.function = "ncclGather",
                  .operation = CollectiveKind::kGather,
                  .send = sendbuff,
                  .receive = recvbuff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .root = root,
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count,
         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue({.function = "ncclScatter",
                  .operation = CollectiveKind::kScatter,
                  .send = sendbuff,
                  .receive = recvbuff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .root = root,
                  .communicator = comm,
                  .stream = stream});
}

// A scalar on the host is read here, one on the device when the collective runs.
NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar,
         ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
  constexpr char kFunction[] = "ncclRedOpCreatePreMulSum";
  return WithLibrary(kFunction, [&](Library& library) {
    Communicator* communicator = nullptr;
    ncclResult_t result =
        FindReadyCommunicator(library, comm, kFunction, &communicator);
    if (result == ncclSuccess)
      result = RequirePointer(op, kFunction, "op");
    if (result == ncclSuccess)
      result = RequirePointer(scalar, kFunction, "scalar");
    const int type = NumberOf(datatype);
    if (result == ncclSuccess && (type < 0 || type >= ncclNumTypes))
      result = Fail(ncclInternalError, "%s : invalid type %d", kFunction, type);
    if (result != ncclSuccess)
      return result;
    UserReduction reduction{datatype, true, nullptr, {}};
    if (residence == ncclScalarHostImmediate)
      memcpy(reduction.scalar.data(), scalar,
             ElementBytes(static_cast<vrank::protocol::ElementType>(datatype)));
    else
      reduction.device_scalar = scalar;
    return CreateReduction(communicator, reduction, op);
  });
}

NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  return WithLibrary("ncclRedOpDestroy", [&](Library&) {
    Communicator* communicator = nullptr;
    ncclResult_t result = FindCommunicator(comm, "ncclRedOpDestroy", &communicator);
    return result == ncclSuccess ? DestroyReduction(communicator, NumberOf(op))
                                 : result;
  });
}
