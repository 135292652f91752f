// What collectives must leave behind, computed on the host from what every rank puts
// in.
//
// Elements are small whole numbers that every type holds exactly, as it does every sum,
// product and average of them here: no order of additions rounds, so the expected bytes
// are exact on any number of ranks that is a power of two. Conversions to narrow types
// are those of NVIDIA's headers.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_ORACLE_H_
#define VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_ORACLE_H_

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace conformance {

enum class Collective {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
};

size_t SizeOf(ncclDataType_t type);
bool IsSigned(ncclDataType_t type);
bool IsFloat8(ncclDataType_t type);
std::vector<unsigned char> Encode(ncclDataType_t type,
                                  const std::vector<double>& values);
double Decode(ncclDataType_t type, const unsigned char* element);
// The value as the type holds it.
double Round(ncclDataType_t type, double value);

struct Request {
  Collective collective;
  ncclDataType_t type;
  ncclRedOp_t op;
  size_t count;
  int root;
  int size;
};

bool Reduces(Collective collective);
bool HasRoot(Collective collective);
// In units of `count` elements.
size_t SendChunks(const Request& request);
size_t ReceiveChunks(const Request& request);
// Where in one buffer of the larger size the two lie when the call is in place, in
// elements. REQUIRES: not kAllToAll.
size_t SendOffsetInPlace(const Request& request, int rank);
size_t ReceiveOffsetInPlace(const Request& request, int rank);
// Whether the rank's receive buffer is written.
bool Receives(const Request& request, int rank);

std::vector<double> Input(const Request& request, int rank);
// REQUIRES: Receives(request, rank).
std::vector<double> Expected(const Request& request, int rank);

ncclResult_t Call(const Request& request, const void* send, void* receive,
                  ncclComm_t comm, cudaStream_t stream);

}  // namespace conformance

#endif  // VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_ORACLE_H_
