// Chapter "point-to-point communication" of nccl.h.

#include "virtual_nccl/api/entry.h"

using namespace vrank::nccl;  // entry points stand outside of any namespace

NCCL_API(ncclResult_t, ncclSend, const void* sendbuff, size_t count,
         ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue({.function = "ncclSend",
                  .kind = Request::kSend,
                  .send = sendbuff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .root = peer,
                  .communicator = comm,
                  .stream = stream});
}

NCCL_API(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype,
         int peer, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue({.function = "ncclRecv",
                  .kind = Request::kReceive,
                  .receive = recvbuff,
                  .count = count,
                  .type = NumberOf(datatype),
                  .root = peer,
                  .communicator = comm,
                  .stream = stream});
}
