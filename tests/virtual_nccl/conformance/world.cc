#include "tests/virtual_nccl/conformance/world.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace conformance {
namespace {

World the_world;

std::string MarkPath(const char* mark, int rank) {
  return std::string(getenv("NCCL_TESTS_BOARD")) + "/" + mark + "." +
         std::to_string(rank);
}

template <typename Query>
int Ask(Query query, ncclComm_t comm) {
  int value = -1;
  EXPECT_OK(query(comm, &value));
  return value;
}

}  // namespace

const World& TheWorld() {
  return the_world;
}

void SetWorld(const World& world) {
  the_world = world;
}

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0)
    return;
  EXPECT_CUDA(cudaMalloc(&at_, bytes));
  const std::vector<unsigned char> poison(bytes, kPoison);
  Write(poison.data(), bytes);
}

Buffer::~Buffer() {
  if (at_ != nullptr)
    EXPECT_CUDA(cudaFree(at_));
}

void Buffer::Write(const void* source, size_t bytes, size_t offset) {
  if (bytes > 0)
    EXPECT_CUDA(cudaMemcpy(at(offset), source, bytes, cudaMemcpyHostToDevice));
}

void Buffer::Read(void* target, size_t bytes) const {
  EXPECT_CUDA(cudaDeviceSynchronize());
  if (bytes > 0)
    EXPECT_CUDA(cudaMemcpy(target, at_, bytes, cudaMemcpyDeviceToHost));
}

std::vector<unsigned char> Buffer::Bytes() const {
  return Values<unsigned char>();
}

bool Buffer::IsUntouched() const {
  const auto bytes = Bytes();
  return std::all_of(bytes.begin(), bytes.end(),
                     [](unsigned char byte) { return byte == kPoison; });
}

Comm::~Comm() {
  if (comm_ != nullptr)
    EXPECT_OK(ncclCommDestroy(comm_));
}

Comm Duplicate(ncclComm_t parent, ncclConfig_t* config) {
  Comm made;
  const ncclResult_t result =
      ncclCommSplit(parent, 0, RankIn(parent), made.out(), config);
  EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
  // A split of a nonblocking communicator returns success before there is a child.
  EXPECT_CODE(ncclSuccess, Settle(parent));
  EXPECT_THAT(made.get() != nullptr);
  EXPECT_CODE(ncclSuccess, Settle(made.get()));
  return made;
}

Comm Duplicate() {
  return Duplicate(TheWorld().comm);
}

ncclUniqueId SharedId() {
  ncclUniqueId id{};
  if (TheWorld().rank == 0)
    EXPECT_OK(ncclGetUniqueId(&id));
  Buffer buffer(sizeof id);
  buffer.Write(&id, sizeof id);
  EXPECT_OK(ncclBroadcast(buffer.at(), buffer.at(), sizeof id, ncclChar, 0,
                          TheWorld().comm, TheWorld().stream));
  const auto bytes = buffer.Bytes();
  std::copy(bytes.begin(), bytes.end(), id.internal);
  return id;
}

Comm FromNewId(ncclConfig_t* config) {
  Comm made;
  const ncclUniqueId id = SharedId();
  const ncclResult_t result =
      ncclCommInitRankConfig(made.out(), TheWorld().size, id, TheWorld().rank, config);
  EXPECT_CODE(ncclSuccess, Settle(made.get(), result));
  return made;
}

ncclConfig_t NonblockingConfig() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

int CountOf(ncclComm_t comm) {
  return Ask(ncclCommCount, comm);
}

int RankIn(ncclComm_t comm) {
  return Ask(ncclCommUserRank, comm);
}

int DeviceOf(ncclComm_t comm) {
  return Ask(ncclCommCuDevice, comm);
}

ncclResult_t Settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    const ncclResult_t result = ncclCommGetAsyncError(comm, &state);
    if (result != ncclSuccess)
      return result;
    sched_yield();
  }
  return state;
}

ncclResult_t Settle(ncclComm_t comm, ncclResult_t returned) {
  return returned == ncclInProgress ? Settle(comm) : returned;
}

void Synchronize() {
  EXPECT_CUDA(cudaStreamSynchronize(TheWorld().stream));
}

int SumOver(ncclComm_t comm, int value) {
  Buffer buffer(std::vector<int>{value});
  EXPECT_CODE(ncclSuccess,
              Settle(comm, ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum,
                                         comm, TheWorld().stream)));
  return buffer.Values<int>()[0];
}

bool Works(ncclComm_t comm) {
  return SumOver(comm, 3) == 3 * CountOf(comm);
}

bool HasBoard() {
  return getenv("NCCL_TESTS_BOARD") != nullptr;
}

void Post(const char* mark) {
  const int file = open(MarkPath(mark, TheWorld().rank).c_str(),
                        O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  EXPECT_THAT(file >= 0);
  close(file);
}

bool IsPosted(const char* mark, int rank) {
  return access(MarkPath(mark, rank).c_str(), F_OK) == 0;
}

}  // namespace conformance
