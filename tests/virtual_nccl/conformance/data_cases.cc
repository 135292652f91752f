// Exactness: every collective with every type, operation and root, in place and not,
// with counts 0, 1, odd and large. The bytes are the host's, so nothing may differ.

#include <algorithm>
#include <string>

#include "tests/virtual_nccl/conformance/oracle.h"
#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr size_t kCounts[] = {0, 1, 1027};
constexpr size_t kLarge = 65'537;

std::string Describe(const Request& request, bool in_place) {
  return "count " + std::to_string(request.count) + ", op " +
         std::to_string(request.op) + ", root " + std::to_string(request.root) +
         (in_place ? ", in place" : "");
}

// Calls once and compares all bytes of what may have been written.
void CheckCall(const Request& request, bool in_place, Buffer* first, Buffer* second) {
  const World& world = TheWorld();
  const size_t element = SizeOf(request.type);
  const auto input = Encode(request.type, Input(request, world.rank));
  const size_t send_at =
      in_place ? SendOffsetInPlace(request, world.rank) * element : 0;
  const size_t receive_at =
      in_place ? ReceiveOffsetInPlace(request, world.rank) * element : 0;
  Buffer* const target = in_place ? first : second;
  const size_t looked_at =
      (std::max(SendChunks(request), ReceiveChunks(request)) * request.count + 1) *
      element;

  std::vector<unsigned char> wanted(looked_at, Buffer::kPoison);
  target->Write(wanted.data(), looked_at);
  first->Write(input.data(), input.size(), send_at);
  if (in_place)
    std::copy(input.begin(), input.end(), wanted.begin() + static_cast<long>(send_at));
  if (Receives(request, world.rank)) {
    const auto result = Encode(request.type, Expected(request, world.rank));
    // In place, whatever the result does not cover of the input may be overwritten.
    std::copy(result.begin(), result.end(),
              wanted.begin() + static_cast<long>(receive_at));
  }
  EXPECT_OK(Call(request, first->at(send_at), target->at(receive_at), world.comm,
                 world.stream));
  auto seen = target->Bytes();
  seen.resize(looked_at);
  // ReduceScatter in place leaves the other ranks' blocks undefined.
  if (in_place && request.collective == Collective::kReduceScatter && request.count > 0)
    for (size_t at = 0; at + element < looked_at; ++at)
      if (at / (request.count * element) != static_cast<size_t>(world.rank))
        seen[at] = wanted[at];
  if (seen != wanted)
    Fail(__FILE__, __LINE__, Describe(request, in_place).c_str(), "other bytes");
}

template <Collective kCollective, ncclDataType_t kType>
void CheckType() {
  const World& world = TheWorld();
  const bool exact_average = (world.size & (world.size - 1)) == 0;
  const int ops = Reduces(kCollective) ? ncclNumOps : 1;
  const int roots = HasRoot(kCollective) ? world.size : 1;
  const size_t bytes =
      (static_cast<size_t>(world.size) * kCounts[2] + 1) * SizeOf(kType);
  Buffer first(bytes), second(bytes);
  for (int op = 0; op < ops; ++op) {
    if (op == ncclAvg && !exact_average)
      continue;
    // NCCL 2.28.9 refuses it: its kernel for one rank knows no FP8.
    if (op == ncclAvg && world.size == 1 && IsFloat8(kType))
      continue;
    for (int root = 0; root < roots; ++root)
      for (size_t count : kCounts)
        for (bool in_place : {false, true})
          if (!in_place || kCollective != Collective::kAllToAll)
            CheckCall({kCollective, kType, static_cast<ncclRedOp_t>(op), count, root,
                       world.size},
                      in_place, &first, &second);
  }
  const size_t large = (static_cast<size_t>(world.size) * kLarge + 1) * SizeOf(kType);
  Buffer large_first(large), large_second(large);
  CheckCall({kCollective, kType, ncclSum, kLarge, roots - 1, world.size}, false,
            &large_first, &large_second);
}

#define DATA_CASE(name, function, collective, type, words, needs)      \
  {                                                                    \
    "data." name "." #type, function, "api/colls", words,              \
        CheckType<Collective::collective, ncclDataType_t::nccl##type>, \
        kEveryRank | needs                                             \
  }

// The narrow types reduce from compute capability 9.0 on.
#define DATA_CASES(name, function, collective, words, narrow)           \
  DATA_CASE(name, function, collective, Int8, words, 0),                \
      DATA_CASE(name, function, collective, Uint8, words, 0),           \
      DATA_CASE(name, function, collective, Int32, words, 0),           \
      DATA_CASE(name, function, collective, Uint32, words, 0),          \
      DATA_CASE(name, function, collective, Int64, words, 0),           \
      DATA_CASE(name, function, collective, Uint64, words, 0),          \
      DATA_CASE(name, function, collective, Float16, words, 0),         \
      DATA_CASE(name, function, collective, Float32, words, 0),         \
      DATA_CASE(name, function, collective, Float64, words, 0),         \
      DATA_CASE(name, function, collective, Bfloat16, words, 0),        \
      DATA_CASE(name, function, collective, Float8e4m3, words, narrow), \
      DATA_CASE(name, function, collective, Float8e5m2, words, narrow)

constexpr Case kCases[] = {
    DATA_CASES("all_reduce", "ncclAllReduce", kAllReduce,
               "ncclAllReduce: reduces arrays of length count", kHopper),
    DATA_CASES("all_gather", "ncclAllGather", kAllGather,
               "ncclAllGather: gathers sendcount values from all", 0),
    DATA_CASES("reduce_scatter", "ncclReduceScatter", kReduceScatter,
               "ncclReduceScatter: reduce, leave the result scattered", kHopper),
    DATA_CASES("broadcast", "ncclBroadcast", kBroadcast,
               "ncclBroadcast: copies count elements from root", 0),
    DATA_CASES("reduce", "ncclReduce", kReduce,
               "ncclReduce: reduce arrays of length count into root's", kHopper),
    DATA_CASES("all_to_all", "ncclAlltoAll", kAllToAll,
               "ncclAlltoAll: each rank sends count values to all others", 0),
    DATA_CASES("gather", "ncclGather", kGather,
               "ncclGather: each rank sends count elements to root", 0),
    DATA_CASES("scatter", "ncclScatter", kScatter,
               "ncclScatter: each rank receives count elements from root", 0),
};

}  // namespace

std::span<const Case> DataCases() {
  return kCases;
}

}  // namespace conformance
