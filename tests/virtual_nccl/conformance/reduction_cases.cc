// Chapter "User Defined Reduction Operators", and what order of additions may do.

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tests/virtual_nccl/conformance/oracle.h"
#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/ops";

struct Operation {
  ncclRedOp_t op = ncclSum;
  Buffer on_device;

  Operation(ncclDataType_t type, double scalar, ncclScalarResidence_t residence)
      : on_device(8) {
    auto bytes = Encode(type, {scalar});
    on_device.Write(bytes.data(), bytes.size());
    void* at = residence == ncclScalarDevice ? static_cast<void*>(on_device.at())
                                             : static_cast<void*>(bytes.data());
    EXPECT_OK(ncclRedOpCreatePreMulSum(&op, at, type, residence, TheWorld().comm));
    // A host scalar has been read by now.
    memset(bytes.data(), 0x55, bytes.size());
  }
  ~Operation() { EXPECT_OK(ncclRedOpDestroy(op, TheWorld().comm)); }
};

// scalar * value of each rank, summed.
double Apply(ncclRedOp_t op, ncclDataType_t type, double value) {
  Buffer buffer(Encode(type, {value}));
  EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, type, op, TheWorld().comm,
                          TheWorld().stream));
  return Decode(type, buffer.Bytes().data());
}

// By a communicator of this rank alone, what all ranks have summed before.
void ScalesAlone() {
  Comm alone;
  EXPECT_OK(ncclCommInitAll(alone.out(), 1, &TheWorld().device));
  float scalar = 0.5;
  ncclRedOp_t half = ncclSum;
  EXPECT_OK(ncclRedOpCreatePreMulSum(&half, &scalar, ncclFloat, ncclScalarHostImmediate,
                                     alone.get()));
  Buffer buffer(Encode(ncclFloat, {3}));
  EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat, ncclSum,
                          TheWorld().comm, TheWorld().stream));
  for (int i = 0; i < 2; ++i)
    EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat, half, alone.get(),
                            TheWorld().stream));
  EXPECT_THAT(Decode(ncclFloat, buffer.Bytes().data()) == 0.75 * TheWorld().size);
  EXPECT_OK(ncclRedOpDestroy(half, alone.get()));
}

int ComputeMajor() {
  int major = 0;
  EXPECT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                     TheWorld().device));
  return major;
}

void CheckEveryType(ncclScalarResidence_t residence) {
  for (int type = 0; type < ncclNumTypes; ++type) {
    const auto data_type = static_cast<ncclDataType_t>(type);
    // NCCL 2.28.9 refuses them in a communicator of one rank, with or without a GPU of
    // compute capability 9.0.
    if (IsFloat8(data_type) && (ComputeMajor() < 9 || TheWorld().size == 1))
      continue;
    const Operation twice(data_type, 2, residence);
    EXPECT_THAT(Apply(twice.op, data_type, 1) == 2.0 * TheWorld().size);
  }
}

// Values whose sum depends on the order of additions.
double Rough(int rank, size_t index) {
  const double sign = (static_cast<size_t>(rank) + index) % 3 == 0 ? -1 : 1;
  return sign *
         std::ldexp(1.0 + static_cast<double>((index * 37 + 11) % 64) / 64,
                    static_cast<int>((static_cast<size_t>(rank) * 5 + index) % 7) - 3);
}

constexpr size_t kRoughCount = 257;

std::vector<unsigned char> RoughSum(ncclDataType_t type) {
  std::vector<double> values;
  for (size_t i = 0; i < kRoughCount; ++i)
    values.push_back(Rough(TheWorld().rank, i));
  Buffer buffer(Encode(type, values));
  EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), kRoughCount, type, ncclSum,
                          TheWorld().comm, TheWorld().stream));
  return buffer.Bytes();
}

constexpr ncclDataType_t kFloats[] = {ncclFloat16, ncclBfloat16, ncclFloat32,
                                      ncclFloat64};

// Whatever the order, rounding costs at most half a unit of each of the partial sums.
void SumsAreNear() {
  for (ncclDataType_t type : kFloats) {
    const double unit = Round(type, 1 + 1e-3) == 1 ? 1.0 / 128 : 1.0 / 1024;
    const auto bytes = RoughSum(type);
    for (size_t i = 0; i < kRoughCount; ++i) {
      double exact = 0, scale = 0;
      for (int rank = 0; rank < TheWorld().size; ++rank) {
        exact += Round(type, Rough(rank, i));
        scale += std::abs(Rough(rank, i));
      }
      const double seen = Decode(type, &bytes[i * SizeOf(type)]);
      EXPECT_THAT(std::abs(seen - exact) <= TheWorld().size * scale * unit);
    }
  }
}

// vrank documents its order: ascending ranks, rounded to the type after every step.
void SumsAreInRankOrder() {
  if (getenv("VRANK_RANK") == nullptr)
    return;
  for (ncclDataType_t type : kFloats) {
    std::vector<double> values;
    for (size_t i = 0; i < kRoughCount; ++i) {
      double sum = Round(type, Rough(0, i));
      for (int rank = 1; rank < TheWorld().size; ++rank)
        sum = Round(type, sum + Round(type, Rough(rank, i)));
      values.push_back(sum);
    }
    EXPECT_THAT(RoughSum(type) == Encode(type, values));
  }
}

void SumsAreIdentical() {
  for (ncclDataType_t type : kFloats) {
    const auto mine = RoughSum(type);
    // Compared with rank 0's, byte by byte.
    Buffer of_root(mine);
    EXPECT_OK(ncclBroadcast(of_root.at(), of_root.at(), mine.size(), ncclChar, 0,
                            TheWorld().comm, TheWorld().stream));
    EXPECT_THAT(of_root.Bytes() == mine);
  }
}

constexpr Case kCases[] = {
    {"ops.multiplies_first", "ncclRedOpCreatePreMulSum", kPage,
     "ncclRedOpCreatePreMulSum: pre-multiplies input values by a scalar",
     [] {
       const Operation half(ncclFloat, 0.5, ncclScalarHostImmediate);
       EXPECT_THAT(Apply(half.op, ncclFloat, 3) == 1.5 * TheWorld().size);
     },
     kAnything},
    {"ops.every_type", "ncclRedOpCreatePreMulSum", kPage,
     "ncclRedOpCreatePreMulSum: values and scalar are of type datatype",
     [] { CheckEveryType(ncclScalarHostImmediate); }, kEveryRank},
    {"ops.host_scalar", "ncclRedOpCreatePreMulSum", kPage,
     "ncclScalarHostImmediate: dereferenced before this function returns",
     [] {
       const Operation thrice(ncclInt, 3, ncclScalarHostImmediate);
       EXPECT_THAT(Apply(thrice.op, ncclInt, 1) == 3.0 * TheWorld().size);
     },
     kAnything},
    {"ops.device_scalar", "ncclRedOpCreatePreMulSum", kPage,
     "ncclScalarDevice: dereferenced by the device during the collective",
     [] {
       Operation scaled(ncclFloat, 2, ncclScalarDevice);
       const float now = 4;
       scaled.on_device.Write(&now, sizeof now);
       EXPECT_THAT(Apply(scaled.op, ncclFloat, 1) == 4.0 * TheWorld().size);
     },
     kAnything},
    {"ops.earlier_result", "ncclRedOpCreatePreMulSum ncclAllReduce", kPage,
     "ncclRedOpCreatePreMulSum: pre-multiplies input values by a scalar",
     [] {
       const Operation half(ncclFloat, 0.5, ncclScalarHostImmediate);
       Buffer buffer(Encode(ncclFloat, {3}));
       EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat, ncclSum,
                               TheWorld().comm, TheWorld().stream));
       EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat, half.op,
                               TheWorld().comm, TheWorld().stream));
       const double size = TheWorld().size;
       EXPECT_THAT(Decode(ncclFloat, buffer.Bytes().data()) == 1.5 * size * size);
     },
     kAnything},
    {"ops.earlier_result_alone", "ncclRedOpCreatePreMulSum ncclAllReduce", kPage,
     "ncclRedOpCreatePreMulSum: pre-multiplies input values by a scalar", ScalesAlone,
     kAnything},
    {"ops.scalar_by_a_collective", "ncclRedOpCreatePreMulSum ncclAllReduce", kPage,
     "ncclScalarDevice: dereferenced by the device during the collective",
     [] {
       Operation scaled(ncclFloat, 2, ncclScalarDevice);
       EXPECT_OK(ncclAllReduce(scaled.on_device.at(), scaled.on_device.at(), 1,
                               ncclFloat, ncclSum, TheWorld().comm, TheWorld().stream));
       const double size = TheWorld().size;
       EXPECT_THAT(Apply(scaled.op, ncclFloat, 1) == 2 * size * size);
     },
     kAnything},
    {"ops.device_every_type", "ncclRedOpCreatePreMulSum", "api/types",
     "ncclScalarDevice: resides on device visible memory",
     [] { CheckEveryType(ncclScalarDevice); }, kEveryRank},
    {"ops.immediate", "ncclRedOpCreatePreMulSum", "api/types",
     "ncclScalarHostImmediate: dereferenced in the most immediate way",
     [] {
       const Operation twice(ncclDouble, 2, ncclScalarHostImmediate);
       EXPECT_THAT(Apply(twice.op, ncclDouble, 1.25) == 2.5 * TheWorld().size);
     },
     kAnything},
    {"ops.handle", "ncclRedOpCreatePreMulSum", kPage,
     "ncclRedOpCreatePreMulSum: the operator's handle is stored in op",
     [] {
       const Operation a(ncclFloat, 2, ncclScalarHostImmediate);
       const Operation b(ncclFloat, 3, ncclScalarHostImmediate);
       EXPECT_THAT(a.op >= ncclNumOps && b.op >= ncclNumOps && a.op != b.op);
     }},
    {"ops.least_value", "ncclRedOpCreatePreMulSum", "nccl.h",
     "ncclNumOps: the least possible value for dynamic ncclRedOp_t's",
     [] {
       for (int i = 0; i < 20; ++i)
         EXPECT_THAT(Operation(ncclFloat, 2, ncclScalarHostImmediate).op >= ncclNumOps);
     }},
    {"ops.largest_value", "ncclRedOpCreatePreMulSum", "nccl.h",
     "ncclMaxRedOp: the largest valid value for ncclRedOp_t",
     [] {
       const Operation made(ncclFloat, 2, ncclScalarHostImmediate);
       EXPECT_THAT(made.op <= ncclMaxRedOp);
     }},
    {"ops.only_its_type", "ncclRedOpCreatePreMulSum ncclAllReduce", kPage,
     "ncclRedOpCreatePreMulSum: only against comm and datatype",
     [] {
       const Operation twice(ncclFloat, 2, ncclScalarHostImmediate);
       Buffer buffer(8);
       EXPECT_CODE(ncclInvalidArgument,
                   ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, twice.op,
                                 TheWorld().comm, TheWorld().stream));
     }},
    {"ops.only_its_comm", "ncclRedOpCreatePreMulSum ncclAllReduce", "nccl.h",
     "ncclRedOpCreatePreMulSum: for use only with comm",
     [] {
       const Operation twice(ncclFloat, 2, ncclScalarHostImmediate);
       const Comm other = Duplicate();
       Buffer buffer(8);
       EXPECT_CODE(ncclInvalidArgument,
                   ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat, twice.op,
                                 other.get(), TheWorld().stream));
     }},
    {"ops.destroy", "ncclRedOpDestroy", kPage,
     "ncclRedOpDestroy: destroys the reduction operator",
     [] {
       ncclRedOp_t gone;
       {
         const Operation twice(ncclFloat, 2, ncclScalarHostImmediate);
         gone = twice.op;
       }
       EXPECT_CODE(ncclInvalidArgument, ncclRedOpDestroy(gone, TheWorld().comm));
       Buffer buffer(8);
       EXPECT_CODE(ncclInvalidArgument,
                   ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat, gone,
                                 TheWorld().comm, TheWorld().stream));
     }},
    {"ops.destroy_matching", "ncclRedOpDestroy", kPage,
     "ncclRedOpDestroy: created with the matching communicator",
     [] {
       const Operation twice(ncclFloat, 2, ncclScalarHostImmediate);
       const Comm other = Duplicate();
       EXPECT_CODE(ncclInvalidArgument, ncclRedOpDestroy(twice.op, other.get()));
     }},
    {"ops.destroy_early", "ncclRedOpDestroy", kPage,
     "ncclRedOpDestroy: as soon as the last function given it returns",
     [] {
       Buffer buffer(std::vector<float>{1});
       {
         const Operation twice(ncclFloat, 2, ncclScalarHostImmediate);
         EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat, twice.op,
                                 TheWorld().comm, TheWorld().stream));
       }
       EXPECT_THAT(buffer.Values<float>()[0] ==
                   2.0f * static_cast<float>(TheWorld().size));
     },
     kAnything},
    {"ops.destroy_in_group", "ncclRedOpDestroy ncclGroupEnd", "nccl.h",
     "ncclRedOpDestroy: destroyed as soon as the last function returns",
     [] {
       Buffer buffer(std::vector<float>{1});
       EXPECT_OK(ncclGroupStart());
       {
         const Operation twice(ncclFloat, 2, ncclScalarHostImmediate);
         EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclFloat, twice.op,
                                 TheWorld().comm, TheWorld().stream));
       }
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(buffer.Values<float>()[0] ==
                   2.0f * static_cast<float>(TheWorld().size));
     },
     kAnything},
    {"ops.reduction_collectives",
     "ncclRedOpCreatePreMulSum ncclReduceScatter ncclReduce", kPage,
     "custom operators: for use in reduction collectives",
     [] {
       const World& world = TheWorld();
       const Operation twice(ncclInt, 2, ncclScalarHostImmediate);
       Buffer send(std::vector<int>(static_cast<size_t>(world.size), 1)), one(4),
           two(4);
       EXPECT_OK(ncclReduceScatter(send.at(), one.at(), 1, ncclInt, twice.op,
                                   world.comm, world.stream));
       EXPECT_OK(ncclReduce(send.at(), two.at(), 1, ncclInt, twice.op, 0, world.comm,
                            world.stream));
       EXPECT_THAT(one.Values<int>()[0] == 2 * world.size);
       if (world.rank == 0)
         EXPECT_THAT(two.Values<int>()[0] == 2 * world.size);
     },
     kAnything},
    {"ops.bad_arguments", "ncclRedOpCreatePreMulSum ncclRedOpDestroy",
     "usage/communicators", "errors (3): a NULL pointer or an out-of-bounds value",
     [] {
       // NVIDIA's library dereferences the other pointers unasked.
       float scalar = 2;
       ncclRedOp_t op;
       constexpr auto kHost = ncclScalarHostImmediate;
       EXPECT_CODE(ncclInvalidArgument,
                   ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, kHost, nullptr));
       EXPECT_CODE(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, nullptr));
     }},
    {"sums.near", "ncclAllReduce", "usage/collectives",
     "AllReduce: out[i] = in0[i]+in1[i]+...+in(k-1)[i]", SumsAreNear, kEveryRank},
    {"sums.in_rank_order", "ncclAllReduce", "usage/collectives",
     "AllReduce: each rank will receive identical results in array out",
     SumsAreInRankOrder, kEveryRank},
    {"sums.identical", "ncclAllReduce", "api/colls",
     "ncclAllReduce: identical copies of the result in each recvbuff", SumsAreIdentical,
     kEveryRank},
};

}  // namespace

std::span<const Case> ReductionCases() {
  return kCases;
}

}  // namespace conformance
