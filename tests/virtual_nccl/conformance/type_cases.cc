// Chapter "Types": codes, data types, operations.

#include <initializer_list>
#include <string>

#include "tests/virtual_nccl/conformance/oracle.h"
#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/types";

// The code has the documented value, and a text of its own.
template <ncclResult_t kCode, int kValue>
void CodeIs() {
  static_assert(kCode == kValue);
  const std::string text = ncclGetErrorString(kCode);
  EXPECT_THAT(!text.empty());
  for (int other = 0; other < ncclNumResults; ++other)
    EXPECT_THAT(other == kValue ||
                text != ncclGetErrorString(static_cast<ncclResult_t>(other)));
}

// Bits are those of the type: the sum of one element of each rank, and which of two
// bytes patterns is the larger.
template <ncclDataType_t kType, ncclDataType_t kName = kType>
void TypeIs(size_t bits) {
  static_assert(kType == kName);
  EXPECT_THAT(SizeOf(kType) * 8 == bits);
  const World& world = TheWorld();
  const double low = IsSigned(kType) ? -2 : 2;
  // Three elements of which the middle one is sent: its neighbours stay.
  Buffer buffer(Encode(kType, {1, low, 1}));
  EXPECT_OK(ncclAllReduce(buffer.at(SizeOf(kType)), buffer.at(SizeOf(kType)), 1, kName,
                          ncclSum, world.comm, world.stream));
  const auto sum = buffer.Bytes();
  const double expected = low * world.size;
  EXPECT_THAT(sum == Encode(kType, {1, expected, 1}));

  Buffer pair(Encode(kType, {world.rank == 0 ? low : 0.0}));
  EXPECT_OK(
      ncclAllReduce(pair.at(), pair.at(), 1, kName, ncclMax, world.comm, world.stream));
  const double larger = world.size == 1 ? low : low > 0 ? low : 0;
  EXPECT_THAT(pair.Bytes() == Encode(kType, {larger}));
}

// One value of each rank, reduced.
double Reduce(ncclRedOp_t op, double mine) {
  const World& world = TheWorld();
  Buffer buffer(std::vector<double>{mine});
  EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclDouble, op, world.comm,
                          world.stream));
  return buffer.Values<double>()[0];
}

constexpr Case kCases[] = {
    {"types.comm", "ncclCommInitRank", kPage,
     "ncclComm_t: points to an opaque structure inside NCCL",
     [] {
       const Comm a = Duplicate(), b = Duplicate();
       EXPECT_THAT(a.get() != nullptr && a.get() != b.get());
     }},
    {"types.success", "ncclGetErrorString", kPage,
     "ncclSuccess (0): function succeeded", CodeIs<ncclSuccess, 0>, kNoDevice},
    {"types.cuda_error", "ncclGetErrorString", kPage,
     "ncclUnhandledCudaError (1): a call to a CUDA function failed",
     CodeIs<ncclUnhandledCudaError, 1>, kNoDevice},
    {"types.system_error", "ncclGetErrorString", kPage,
     "ncclSystemError (2): a call to the system failed", CodeIs<ncclSystemError, 2>,
     kNoDevice},
    {"types.internal_error", "ncclGetErrorString", kPage,
     "ncclInternalError (3): an internal check failed", CodeIs<ncclInternalError, 3>,
     kNoDevice},
    {"types.invalid_argument", "ncclGetErrorString", kPage,
     "ncclInvalidArgument (4): an argument has an invalid value",
     CodeIs<ncclInvalidArgument, 4>, kNoDevice},
    {"types.invalid_usage", "ncclGetErrorString", kPage,
     "ncclInvalidUsage (5): the call to NCCL is incorrect", CodeIs<ncclInvalidUsage, 5>,
     kNoDevice},
    {"types.remote_error", "ncclGetErrorString", kPage,
     "ncclRemoteError (6): network error or a remote process exiting",
     CodeIs<ncclRemoteError, 6>, kNoDevice},
    {"types.in_progress", "ncclGetErrorString", kPage,
     "ncclInProgress (7): being enqueued and progressed in the background",
     CodeIs<ncclInProgress, 7>, kNoDevice},
    {"types.int8", "ncclAllReduce", kPage, "ncclInt8: signed 8-bits integer",
     [] { TypeIs<ncclInt8>(8); }, kEveryRank},
    {"types.char", "ncclAllReduce", kPage, "ncclChar: signed 8-bits integer",
     [] { TypeIs<ncclInt8, ncclChar>(8); }, kEveryRank},
    {"types.uint8", "ncclAllReduce", kPage, "ncclUint8: unsigned 8-bits integer",
     [] { TypeIs<ncclUint8>(8); }, kEveryRank},
    {"types.int32", "ncclAllReduce", kPage, "ncclInt32: signed 32-bits integer",
     [] { TypeIs<ncclInt32>(32); }, kEveryRank},
    {"types.int", "ncclAllReduce", kPage, "ncclInt: signed 32-bits integer",
     [] { TypeIs<ncclInt32, ncclInt>(32); }, kEveryRank},
    {"types.uint32", "ncclAllReduce", kPage, "ncclUint32: unsigned 32-bits integer",
     [] { TypeIs<ncclUint32>(32); }, kEveryRank},
    {"types.int64", "ncclAllReduce", kPage, "ncclInt64: signed 64-bits integer",
     [] { TypeIs<ncclInt64>(64); }, kEveryRank},
    {"types.uint64", "ncclAllReduce", kPage, "ncclUint64: unsigned 64-bits integer",
     [] { TypeIs<ncclUint64>(64); }, kEveryRank},
    {"types.float16", "ncclAllReduce", kPage, "ncclFloat16: 16-bits half precision",
     [] { TypeIs<ncclFloat16>(16); }, kEveryRank},
    {"types.half", "ncclAllReduce", kPage, "ncclHalf: 16-bits half precision",
     [] { TypeIs<ncclFloat16, ncclHalf>(16); }, kEveryRank},
    {"types.float32", "ncclAllReduce", kPage, "ncclFloat32: 32-bits single precision",
     [] { TypeIs<ncclFloat32>(32); }, kEveryRank},
    {"types.float", "ncclAllReduce", kPage, "ncclFloat: 32-bits single precision",
     [] { TypeIs<ncclFloat32, ncclFloat>(32); }, kEveryRank},
    {"types.float64", "ncclAllReduce", kPage, "ncclFloat64: 64-bits double precision",
     [] { TypeIs<ncclFloat64>(64); }, kEveryRank},
    {"types.double", "ncclAllReduce", kPage, "ncclDouble: 64-bits double precision",
     [] { TypeIs<ncclFloat64, ncclDouble>(64); }, kEveryRank},
    {"types.bfloat16", "ncclAllReduce", kPage,
     "ncclBfloat16: 16-bits, truncated precision in bfloat16 format",
     [] { TypeIs<ncclBfloat16>(16); }, kEveryRank},
    {"types.float8e4m3", "ncclAllReduce", kPage,
     "ncclFloat8e4m3: 8-bits, 4 exponent bits, 3 mantissa bits",
     [] { TypeIs<ncclFloat8e4m3>(8); }, kEveryRank | kHopper},
    {"types.float8e5m2", "ncclAllReduce", kPage,
     "ncclFloat8e5m2: 8-bits, 5 exponent bits, 2 mantissa bits",
     [] { TypeIs<ncclFloat8e5m2>(8); }, kEveryRank | kHopper},
    {"types.defined", "ncclAllReduce", kPage,
     "ncclDataType_t: NCCL defines the following data-types",
     [] {
       Buffer buffer(8);
       for (int type : {-1, static_cast<int>(ncclNumTypes), 99})
         EXPECT_CODE(ncclInvalidArgument,
                     ncclAllReduce(buffer.at(), buffer.at(), 1,
                                   static_cast<ncclDataType_t>(type), ncclSum,
                                   TheWorld().comm, TheWorld().stream));
       EXPECT_THAT(buffer.IsUntouched());
     }},
    {"types.red_op", "ncclAllReduce", kPage, "ncclRedOp_t: the reduction operation",
     [] {
       Buffer buffer(8);
       for (int op : {-1, static_cast<int>(ncclMaxRedOp)})
         EXPECT_CODE(ncclInvalidArgument,
                     ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat,
                                   static_cast<ncclRedOp_t>(op), TheWorld().comm,
                                   TheWorld().stream));
       EXPECT_THAT(buffer.IsUntouched());
     }},
    {"types.sum", "ncclAllReduce", kPage, "ncclSum: perform a sum (+) operation",
     [] {
       const int size = TheWorld().size;
       EXPECT_THAT(Reduce(ncclSum, TheWorld().rank + 0.5) == size * size / 2.0);
     },
     kEveryRank},
    {"types.prod", "ncclAllReduce", kPage, "ncclProd: perform a product (*) operation",
     [] {
       double factorial = 1;
       for (int i = 1; i <= TheWorld().size; ++i)
         factorial *= i;
       EXPECT_THAT(Reduce(ncclProd, TheWorld().rank + 1.0) == factorial);
     },
     kEveryRank},
    {"types.min", "ncclAllReduce", kPage, "ncclMin: perform a min operation",
     [] {
       EXPECT_THAT(Reduce(ncclMin, 3.0 - TheWorld().rank) == 4.0 - TheWorld().size);
     },
     kEveryRank},
    {"types.max", "ncclAllReduce", kPage, "ncclMax: perform a max operation",
     [] {
       EXPECT_THAT(Reduce(ncclMax, TheWorld().rank - 3.0) == TheWorld().size - 4.0);
     },
     kEveryRank},
    {"types.avg", "ncclAllReduce", kPage,
     "ncclAvg: a sum across all ranks, divided by the number of ranks",
     [] {
       const int size = TheWorld().size;
       const double average = Reduce(ncclAvg, 2.0 * TheWorld().rank);
       EXPECT_THAT(average > size - 1 - 1e-9 && average < size - 1 + 1e-9);
     },
     kEveryRank},
    {"types.builtin_ops", "ncclRedOpDestroy", "nccl.h",
     "ncclNumOps: the number of built-in ncclRedOp_t values",
     [] {
       EXPECT_THAT(ncclNumOps == 5);
       for (int op = 0; op < ncclNumOps; ++op)
         EXPECT_CODE(ncclInvalidArgument,
                     ncclRedOpDestroy(static_cast<ncclRedOp_t>(op), TheWorld().comm));
     }},
    {"types.mirrored", "ncclAllReduce", "nccl.h",
     "ncclAllReduce: leaves identical copies of result on each recvbuff",
     [] {
       // All contribute the same: the result is known whoever is played.
       Buffer buffer(std::vector<double>{1.5});
       EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclDouble, ncclSum,
                               TheWorld().comm, TheWorld().stream));
       EXPECT_THAT(buffer.Values<double>()[0] == 1.5 * TheWorld().size);
     }},
};

}  // namespace

std::span<const Case> TypeCases() {
  return kCases;
}

}  // namespace conformance
