// Collectives on ints of the world, in short, for the tables of cases.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_COLLECTIVE_CALLS_H_
#define VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_COLLECTIVE_CALLS_H_

#include <nccl.h>

#include <numeric>
#include <vector>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {

using Ints = std::vector<int>;

inline size_t Size() {
  return static_cast<size_t>(TheWorld().size);
}

inline int Last() {
  return TheWorld().size - 1;
}

// {start, start + 1, ...}
inline Ints Count(size_t count, int start) {
  Ints values(count);
  std::iota(values.begin(), values.end(), start);
  return values;
}

// `count` values of this rank: 100 * rank, 100 * rank + 1, ...
inline Ints Own(size_t count, int rank = TheWorld().rank) {
  return Count(count, 100 * rank);
}

// Own() of all ranks, one after the other.
inline Ints Everyones(size_t count) {
  Ints all;
  for (int rank = 0; rank < TheWorld().size; ++rank)
    for (int value : Own(count, rank))
      all.push_back(value);
  return all;
}

inline Buffer Blank(size_t count) {
  return Buffer(count * sizeof(int));
}

inline void AllReduce(const void* send, void* receive, size_t count) {
  EXPECT_OK(ncclAllReduce(send, receive, count, ncclInt, ncclSum, TheWorld().comm,
                          TheWorld().stream));
}

inline void Broadcast(const void* send, void* receive, size_t count, int root) {
  EXPECT_OK(ncclBroadcast(send, receive, count, ncclInt, root, TheWorld().comm,
                          TheWorld().stream));
}

inline void Reduce(const void* send, void* receive, size_t count, int root) {
  EXPECT_OK(ncclReduce(send, receive, count, ncclInt, ncclSum, root, TheWorld().comm,
                       TheWorld().stream));
}

inline void AllGather(const void* send, void* receive, size_t count) {
  EXPECT_OK(
      ncclAllGather(send, receive, count, ncclInt, TheWorld().comm, TheWorld().stream));
}

inline void ReduceScatter(const void* send, void* receive, size_t count) {
  EXPECT_OK(ncclReduceScatter(send, receive, count, ncclInt, ncclSum, TheWorld().comm,
                              TheWorld().stream));
}

inline void AllToAll(const void* send, void* receive, size_t count) {
  EXPECT_OK(
      ncclAlltoAll(send, receive, count, ncclInt, TheWorld().comm, TheWorld().stream));
}

inline void Gather(const void* send, void* receive, size_t count, int root) {
  EXPECT_OK(ncclGather(send, receive, count, ncclInt, root, TheWorld().comm,
                       TheWorld().stream));
}

inline void Scatter(const void* send, void* receive, size_t count, int root) {
  EXPECT_OK(ncclScatter(send, receive, count, ncclInt, root, TheWorld().comm,
                        TheWorld().stream));
}

inline bool Holds(const Buffer& buffer, const Ints& values) {
  return buffer.Values<int>() == values;
}

// Sum over all ranks of Own(count).
inline Ints OwnSummed(size_t count) {
  Ints sums(count);
  for (size_t i = 0; i < count; ++i)
    sums[i] = 50 * TheWorld().size * Last() + static_cast<int>(i) * TheWorld().size;
  return sums;
}

// Every rank sends the same Count(size * count, 0): block r of the result is known.
inline Ints BlockSummed(size_t count, int rank) {
  Ints block = Count(count, rank * static_cast<int>(count));
  for (int& value : block)
    value *= TheWorld().size;
  return block;
}

inline bool IsRoot(int root) {
  return TheWorld().rank == root;
}

}  // namespace conformance

#endif  // VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_COLLECTIVE_CALLS_H_
