// What cases share: the job, device buffers with host-written bytes, communicators.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_WORLD_H_
#define VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_WORLD_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/virtual_nccl/conformance/suite.h"

namespace conformance {

struct World {
  int rank = 0;
  int size = 1;
  int device = 0;
  int devices = 0;            // of this process
  std::vector<int> present;   // ranks that are processes, ascending
  ncclComm_t comm = nullptr;  // of all ranks
  cudaStream_t stream = nullptr;

  bool everybody() const { return static_cast<int>(present.size()) == size; }
  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }
};
const World& TheWorld();
void SetWorld(const World& world);

// Device memory with bytes that the host wrote.
class Buffer {
 public:
  static constexpr unsigned char kPoison = 0xa5;

  explicit Buffer(size_t bytes);  // poisoned
  template <typename T>
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size() * sizeof(T)) {
    Write(values.data(), values.size() * sizeof(T));
  }
  Buffer(Buffer&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_) {}
  ~Buffer();

  char* at(size_t offset = 0) const { return static_cast<char*>(at_) + offset; }
  size_t bytes() const { return bytes_; }
  void Write(const void* source, size_t bytes, size_t offset = 0);
  // The bytes now, once the device has done all it was told.
  std::vector<unsigned char> Bytes() const;
  template <typename T>
  std::vector<T> Values() const {
    std::vector<T> values(bytes_ / sizeof(T));
    Read(values.data(), values.size() * sizeof(T));
    return values;
  }
  bool IsUntouched() const;

 private:
  void Read(void* target, size_t bytes) const;
  void* at_ = nullptr;
  size_t bytes_ = 0;
};

// A communicator that ends with its scope unless it was given up.
class Comm {
 public:
  explicit Comm(ncclComm_t comm = nullptr) : comm_(comm) {}
  Comm(Comm&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  ~Comm();
  ncclComm_t get() const { return comm_; }
  ncclComm_t* out() { return &comm_; }
  ncclComm_t Release() { return std::exchange(comm_, nullptr); }

 private:
  ncclComm_t comm_;
};

// All ranks again, by ncclCommSplit.
Comm Duplicate(ncclComm_t parent, ncclConfig_t* config = nullptr);
Comm Duplicate();
// All ranks again, from a new unique id.
Comm FromNewId(ncclConfig_t* config = nullptr);
// The same new id on every rank.
ncclUniqueId SharedId();
ncclConfig_t NonblockingConfig();

int CountOf(ncclComm_t comm);
int RankIn(ncclComm_t comm);
int DeviceOf(ncclComm_t comm);

// Polls until the communicator is no longer in progress; its state.
ncclResult_t Settle(ncclComm_t comm);
// Of a call on a nonblocking communicator: success now, or later.
ncclResult_t Settle(ncclComm_t comm, ncclResult_t returned);

// Whether the communicator adds one element of each member rightly. Collective.
bool Works(ncclComm_t comm);
// The sum of one int over the communicator, on the world's stream.
int SumOver(ncclComm_t comm, int value);
void Synchronize();

// Marks that ranks leave for each other outside of NCCL.
bool HasBoard();
void Post(const char* mark);
bool IsPosted(const char* mark, int rank);

}  // namespace conformance

#endif  // VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_WORLD_H_
