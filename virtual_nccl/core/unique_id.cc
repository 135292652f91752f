// Layout of an id: a text, filled up with zeros. It shows in logs as what it means.
// Where processes share ids, who made it stands at the end (base/guest/shared_id.h).

#include "virtual_nccl/core/unique_id.h"

#include <cstdio>
#include <initializer_list>

#include "base/guest/protocol.h"
#include "base/guest/shared_id.h"

namespace vrank::nccl {

static_assert(sizeof(ncclUniqueId) == protocol::kUniqueIdBytes);
static_assert(sizeof(ncclUniqueId) == kSharedIdBytes);

ncclUniqueId MakeUniqueId(const char* comm_id, uint32_t rank, uint32_t made_before) {
  ncclUniqueId id{};
  if (comm_id != nullptr && *comm_id != '\0') {
    snprintf(id.internal, sizeof id.internal, "%s%.80s #%u", kSharedIdPrefix, comm_id,
             made_before);
    SetMakerOfSharedId(&id, rank);
  } else {
    snprintf(id.internal, sizeof id.internal, "vrank id %u of rank %u", made_before,
             rank);
  }
  return id;
}

ncclUniqueId MakeGrowId(uint64_t parent, uint32_t grows_before) {
  ncclUniqueId id{};
  snprintf(id.internal, sizeof id.internal,
           "vrank id of grow %u of communicator %016llx", grows_before,
           static_cast<unsigned long long>(parent));
  return id;
}

// FNV-1a, 64 bit.
uint64_t HashOfPassed(const ncclUniqueId& id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char byte : id.internal)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

uint64_t HashOf(const ncclUniqueId& id) {
  ncclUniqueId shared = id;
  if (IsSharedId(&id))
    SetMakerOfSharedId(&shared, -1);
  return HashOfPassed(shared);
}

uint64_t HashOfChild(uint64_t parent, uint32_t splits_before, int color) {
  uint64_t hash = parent;
  for (uint32_t value : {splits_before, static_cast<uint32_t>(color)})
    for (int shift = 0; shift < 32; shift += 8)
      hash = (hash ^ (value >> shift & 0xff)) * 0x100000001b3;
  return hash;
}

}  // namespace vrank::nccl
