// Chapter "collective communication operations" of nccl.h, and its own reductions.

#include "virtual_nccl/api/entry.h"

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
                  .type = datatype,
                  .reduction = op,
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
                  .type = datatype,
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
                  .type = datatype,
                  .reduction = op,
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
                  .type = datatype,
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
                  .type = datatype,
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
                  .type = datatype,
                  .reduction = op,
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
                  .type = datatype,
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
                  .type = datatype,
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
                  .type = datatype,
                  .root = root,
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar,
         ncclDataType_t datatype, ncclScalarResidence_t, ncclComm_t comm) {
  constexpr char kFunction[] = "ncclRedOpCreatePreMulSum";
  return WithLibrary(kFunction, [&](Library&) {
    Communicator* communicator = nullptr;
    ncclResult_t result = FindReadyCommunicator(comm, kFunction, &communicator);
    if (result == ncclSuccess)
      result = RequirePointer(op, kFunction, "op");
    if (result == ncclSuccess)
      result = RequirePointer(scalar, kFunction, "scalar");
    return result == ncclSuccess ? CreateReduction(communicator, datatype, op) : result;
  });
}

NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  return WithLibrary("ncclRedOpDestroy", [&](Library&) {
    Communicator* communicator = nullptr;
    ncclResult_t result = FindCommunicator(comm, "ncclRedOpDestroy", &communicator);
    return result == ncclSuccess ? DestroyReduction(communicator, op) : result;
  });
}
