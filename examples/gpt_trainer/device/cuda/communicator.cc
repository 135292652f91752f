// NCCL.

#include "examples/gpt_trainer/device/communicator.h"

#include <cstdlib>
#include <cstring>

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/device/cuda/cuda_checks.h"
#include "examples/gpt_trainer/id_exchange.h"

namespace gpt {
namespace {

ncclDataType_t NcclType(DataType type) {
  switch (type) {
    case DataType::kElement:
      return ncclBfloat16;
    case DataType::kFloat:
      return ncclFloat;
    case DataType::kInt:
      break;
  }
  return ncclInt32;
}

// The same id in all processes of the world. With NCCL_COMM_ID (host:port) every
// process asks NCCL for it; otherwise rank 0 hands it out by TCP at
// MASTER_ADDR:MASTER_PORT.
ncclUniqueId AgreeOnUniqueId(const World& world) {
  ncclUniqueId id{};
  if (std::getenv("NCCL_COMM_ID") != nullptr || world.size == 1) {
    GPT_CHECK_NCCL(ncclGetUniqueId(&id));
    return id;
  }
  if (world.rank == 0) {
    GPT_CHECK_NCCL(ncclGetUniqueId(&id));
    ServeBytes(MasterPort(), world.size - 1, &id, sizeof(id));
    return id;
  }
  const char* address = std::getenv("MASTER_ADDR");
  if (address == nullptr) {
    throw UsageError(
        "neither NCCL_COMM_ID nor MASTER_ADDR is set: ranks cannot find each other");
  }
  FetchBytes(address, MasterPort(), &id, sizeof(id));
  return id;
}

}  // namespace

Communicator::Communicator(const World& world) : rank_(world.rank), size_(world.size) {
  const ncclUniqueId id = AgreeOnUniqueId(world);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  GPT_CHECK_NCCL(ncclCommInitRankConfig(&handle_, world.size, id, world.rank, &config));
}

Communicator::~Communicator() {
  if (handle_ != nullptr) {
    GPT_CHECK_NCCL(ncclCommFinalize(handle_));
    GPT_CHECK_NCCL(ncclCommDestroy(handle_));
  }
}

Communicator Communicator::Split(int color, int key, const char* name) const {
  static_assert(kNoColor == NCCL_SPLIT_NOCOLOR);
  Communicator child;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  GPT_CHECK_NCCL(ncclCommSplit(handle_, color, key, &child.handle_, &config));
  if (child.handle_ != nullptr) {
    GPT_CHECK_NCCL(ncclCommUserRank(child.handle_, &child.rank_));
    GPT_CHECK_NCCL(ncclCommCount(child.handle_, &child.size_));
  }
  return child;
}

void Communicator::AllReduce(const void* in, void* out, long long elements,
                             DataType type, Reduction reduction,
                             StreamHandle stream) const {
  GPT_CHECK_NCCL(ncclAllReduce(in, out, elements, NcclType(type),
                               reduction == Reduction::kSum ? ncclSum : ncclMax,
                               handle_, stream));
}

void Communicator::AllGather(const void* part, void* whole, long long part_elements,
                             DataType type, StreamHandle stream) const {
  GPT_CHECK_NCCL(
      ncclAllGather(part, whole, part_elements, NcclType(type), handle_, stream));
}

void Communicator::ReduceScatter(const void* whole, void* part, long long part_elements,
                                 DataType type, StreamHandle stream) const {
  GPT_CHECK_NCCL(ncclReduceScatter(whole, part, part_elements, NcclType(type), ncclSum,
                                   handle_, stream));
}

void Communicator::Exchange(const std::vector<Transfer>& transfers,
                            StreamHandle stream) const {
  GPT_CHECK_NCCL(ncclGroupStart());
  for (const Transfer& t : transfers) {
    if (t.elements == 0) {
      continue;
    }
    if (t.direction == Transfer::Direction::kSend) {
      GPT_CHECK_NCCL(
          ncclSend(t.data, t.elements, NcclType(t.type), t.peer, handle_, stream));
    } else {
      GPT_CHECK_NCCL(
          ncclRecv(t.data, t.elements, NcclType(t.type), t.peer, handle_, stream));
    }
  }
  GPT_CHECK_NCCL(ncclGroupEnd());
}

}  // namespace gpt
