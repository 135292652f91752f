#include "tests/virtual_nccl/conformance/oracle.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace conformance {
namespace {

template <typename T>
struct Native {
  static void Store(double value, unsigned char* at) {
    const T element = static_cast<T>(value);
    memcpy(at, &element, sizeof element);
  }
  static double Load(const unsigned char* at) {
    T element;
    memcpy(&element, at, sizeof element);
    return static_cast<double>(element);
  }
};

// NVIDIA's narrow types convert from and to float.
template <typename T>
struct Narrow {
  static void Store(double value, unsigned char* at) {
    const T element(static_cast<float>(value));
    memcpy(at, &element, sizeof element);
  }
  static double Load(const unsigned char* at) {
    T element;
    memcpy(static_cast<void*>(&element), at, sizeof element);
    return static_cast<double>(static_cast<float>(element));
  }
};

struct Codec {
  size_t bytes;
  bool is_signed;
  void (*store)(double value, unsigned char* at);
  double (*load)(const unsigned char* at);
};

template <typename Format>
constexpr Codec CodecOf(size_t bytes, bool is_signed) {
  return {bytes, is_signed, Format::Store, Format::Load};
}

// In the order of ncclDataType_t.
constexpr Codec kCodecs[] = {
    CodecOf<Native<int8_t>>(1, true),        CodecOf<Native<uint8_t>>(1, false),
    CodecOf<Native<int32_t>>(4, true),       CodecOf<Native<uint32_t>>(4, false),
    CodecOf<Native<int64_t>>(8, true),       CodecOf<Native<uint64_t>>(8, false),
    CodecOf<Narrow<__half>>(2, true),        CodecOf<Native<float>>(4, true),
    CodecOf<Native<double>>(8, true),        CodecOf<Narrow<__nv_bfloat16>>(2, true),
    CodecOf<Narrow<__nv_fp8_e4m3>>(1, true), CodecOf<Narrow<__nv_fp8_e5m2>>(1, true),
};
static_assert(sizeof kCodecs / sizeof *kCodecs == ncclNumTypes);

struct Shape {
  bool reduces, has_root, sends_all, receives_all, root_sends, root_receives;
};

// In the order of Collective.
constexpr Shape kShapes[] = {
    // reduces, has_root, sends_all, receives_all, root_sends, root_receives
    {true, false, false, false, false, false},  // kAllReduce
    {false, false, false, true, false, false},  // kAllGather
    {true, false, true, false, false, false},   // kReduceScatter
    {false, true, false, false, true, false},   // kBroadcast
    {true, true, false, false, false, true},    // kReduce
    {false, false, true, true, false, false},   // kAllToAll
    {false, true, false, true, false, true},    // kGather
    {false, true, true, false, true, false},    // kScatter
};

const Shape& ShapeOf(Collective collective) {
  return kShapes[static_cast<size_t>(collective)];
}

double Element(const Request& request, int rank, size_t index) {
  const size_t mixed = index * 7 + static_cast<size_t>(rank) * 3;
  if (!Reduces(request.collective))
    // Any byte pattern must arrive: fp8 and int8 hold these exactly, too.
    return static_cast<double>(mixed % 8) - (IsSigned(request.type) ? 4 : 0);
  switch (request.op) {
    case ncclProd:
      return mixed % 4 == 0 ? 2 : 1;
    case ncclMax:
    case ncclMin:
      return static_cast<double>((index * 5 + static_cast<size_t>(rank) * 11) % 15) -
             (IsSigned(request.type) ? 7 : 0);
    case ncclAvg:
      return static_cast<double>(mixed % 2) * request.size;
    default:
      return static_cast<double>(mixed % (IsFloat8(request.type) ? 2 : 13));
  }
}

double Combine(ncclRedOp_t op, double a, double b) {
  switch (op) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

double Reduced(const Request& request, size_t index) {
  double result = Element(request, 0, index);
  for (int rank = 1; rank < request.size; ++rank)
    result = Combine(request.op, result, Element(request, rank, index));
  return request.op == ncclAvg ? result / request.size : result;
}

}  // namespace

size_t SizeOf(ncclDataType_t type) {
  return kCodecs[type].bytes;
}

bool IsSigned(ncclDataType_t type) {
  return kCodecs[type].is_signed;
}

bool IsFloat8(ncclDataType_t type) {
  return type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
}

std::vector<unsigned char> Encode(ncclDataType_t type,
                                  const std::vector<double>& values) {
  const Codec& codec = kCodecs[type];
  std::vector<unsigned char> bytes(values.size() * codec.bytes);
  for (size_t i = 0; i < values.size(); ++i)
    codec.store(values[i], &bytes[i * codec.bytes]);
  return bytes;
}

double Decode(ncclDataType_t type, const unsigned char* element) {
  return kCodecs[type].load(element);
}

double Round(ncclDataType_t type, double value) {
  unsigned char element[8];
  kCodecs[type].store(value, element);
  return kCodecs[type].load(element);
}

bool Reduces(Collective collective) {
  return ShapeOf(collective).reduces;
}

bool HasRoot(Collective collective) {
  return ShapeOf(collective).has_root;
}

size_t SendChunks(const Request& request) {
  return ShapeOf(request.collective).sends_all ? static_cast<size_t>(request.size) : 1;
}

size_t ReceiveChunks(const Request& request) {
  return ShapeOf(request.collective).receives_all ? static_cast<size_t>(request.size)
                                                  : 1;
}

size_t SendOffsetInPlace(const Request& request, int rank) {
  if (request.collective == Collective::kAllGather)
    return static_cast<size_t>(rank) * request.count;
  if (request.collective == Collective::kGather)
    return static_cast<size_t>(rank == request.root ? rank : 0) * request.count;
  return 0;
}

size_t ReceiveOffsetInPlace(const Request& request, int rank) {
  if (request.collective == Collective::kReduceScatter)
    return static_cast<size_t>(rank) * request.count;
  if (request.collective == Collective::kScatter)
    return static_cast<size_t>(rank == request.root ? rank : 0) * request.count;
  return 0;
}

bool Receives(const Request& request, int rank) {
  return request.count > 0 &&
         (!ShapeOf(request.collective).root_receives || rank == request.root);
}

std::vector<double> Input(const Request& request, int rank) {
  std::vector<double> values(SendChunks(request) * request.count);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = Element(request, rank, i);
  return values;
}

std::vector<double> Expected(const Request& request, int rank) {
  const size_t count = request.count;
  const size_t own = static_cast<size_t>(rank) * count;
  std::vector<double> values(ReceiveChunks(request) * count);
  for (size_t i = 0; i < values.size(); ++i) {
    const int from = static_cast<int>(i / count);
    switch (request.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        values[i] = Reduced(request, i);
        break;
      case Collective::kReduceScatter:
        values[i] = Reduced(request, own + i);
        break;
      case Collective::kBroadcast:
        values[i] = Element(request, request.root, i);
        break;
      case Collective::kAllGather:
      case Collective::kGather:
        values[i] = Element(request, from, i % count);
        break;
      case Collective::kAllToAll:
        values[i] = Element(request, from, own + i % count);
        break;
      case Collective::kScatter:
        values[i] = Element(request, request.root, own + i);
        break;
    }
  }
  return values;
}

ncclResult_t Call(const Request& request, const void* send, void* receive,
                  ncclComm_t comm, cudaStream_t stream) {
  const auto [collective, type, op, count, root, size] = request;
  switch (collective) {
    case Collective::kAllReduce:
      return ncclAllReduce(send, receive, count, type, op, comm, stream);
    case Collective::kAllGather:
      return ncclAllGather(send, receive, count, type, comm, stream);
    case Collective::kReduceScatter:
      return ncclReduceScatter(send, receive, count, type, op, comm, stream);
    case Collective::kBroadcast:
      return ncclBroadcast(send, receive, count, type, root, comm, stream);
    case Collective::kReduce:
      return ncclReduce(send, receive, count, type, op, root, comm, stream);
    case Collective::kAllToAll:
      return ncclAlltoAll(send, receive, count, type, comm, stream);
    case Collective::kGather:
      return ncclGather(send, receive, count, type, root, comm, stream);
    case Collective::kScatter:
      return ncclScatter(send, receive, count, type, root, comm, stream);
  }
  return ncclInternalError;
}

}  // namespace conformance
