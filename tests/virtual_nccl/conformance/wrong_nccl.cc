// NCCL with one mistake, to show that the cases find it: NCCL_TESTS_WRONG says which.
//
// These definitions belong to the program, so its calls come here and go on to the
// library by the names that begin with p.

#include <nccl.h>

#include <cstdlib>
#include <cstring>

namespace {

bool Is(const char* mistake) {
  const char* chosen = getenv("NCCL_TESTS_WRONG");
  return chosen != nullptr && strcmp(chosen, mistake) == 0;
}

int NextRank(int root, ncclComm_t comm) {
  int ranks = 1;
  pncclCommCount(comm, &ranks);
  return (root + 1) % ranks;
}

}  // namespace

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  if (Is("maximum") && op == ncclMax)
    op = ncclMin;
  if (Is("short") && count > 1)
    --count;
  if (Is("lenient") && comm == nullptr)
    return ncclSuccess;
  if (Is("stream"))
    stream = nullptr;
  return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  if (Is("root") && sendbuff != nullptr)
    root = NextRank(root, comm);
  return pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream);
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream) {
  // What came from the others is lost.
  return Is("gather")
             ? pncclAllGather(sendbuff, recvbuff, count, datatype, comm, stream)
             : pncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  if (Is("key"))
    key = 0;
  return pncclCommSplit(comm, color, key, newcomm, config);
}

ncclResult_t ncclGroupEnd() {
  const ncclResult_t result = pncclGroupEnd();
  return Is("group") ? ncclSuccess : result;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const ncclResult_t result = pncclRedOpDestroy(op, comm);
  return Is("operation") ? ncclSuccess : result;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return Is("finalize") ? ncclSuccess : pncclCommFinalize(comm);
}
