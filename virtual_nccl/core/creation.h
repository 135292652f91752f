// How communicators come into being: init from a unique id, split of a parent.
//
// Both are rendezvous of the members' host threads. The call checks its arguments and
// joins the thread's group; the end of the group asks the emulator, which answers when
// all members have arrived. Who they are is the emulator's matter: a split's answer
// says how many there are and which of them this one is.
//
// A communicator with several members in one process is refused: to the emulator a
// process is one rank of the job.
//
// Thread rule: may be called from any thread; Create waits for other processes, and
// holds no lock meanwhile.

#ifndef VRANK_VIRTUAL_NCCL_CORE_CREATION_H_
#define VRANK_VIRTUAL_NCCL_CORE_CREATION_H_

#include <nccl.h>

#include <cstdint>

#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

class Group;

// One communicator to be made at the end of a group.
struct Creation {
  const char* function;
  uint64_t order;   // equal on all members; see group.h
  uint32_t number;  // the new communicator's
  ncclComm_t* out;  // where the program wants the handle
  Config config;
  // Init: the communicator, still joining, whose handle the program has already.
  Communicator* joining = nullptr;
  ncclUniqueId id{};
  // Split.
  Communicator* parent = nullptr;
  uint32_t splits_before = 0;
  int color = 0;
  int key = 0;
};

inline constexpr int kCurrentDevice = -1;

struct InitArguments {
  const char* function = "";
  ncclComm_t* out = nullptr;
  int ranks = 0;
  int rank = 0;
  int id_count = 1;
  const ncclUniqueId* ids = nullptr;     // the first one names the communicator
  const ncclConfig_t* config = nullptr;  // nullptr: NCCL's defaults
  int device = kCurrentDevice;
};

// The entry points, each a group of its own where none is open.
ncclResult_t InitRank(Library& library, Group& group, const InitArguments& arguments);
ncclResult_t InitAll(Library& library, Group& group, ncclComm_t* out, int count,
                     const int* devices);
ncclResult_t Split(Library& library, Group& group, ncclComm_t parent, int color,
                   int key, ncclComm_t* out, const ncclConfig_t* config);

// Meets the other members and hands out the handle; or gives up before that.
ncclResult_t Create(Library& library, const Creation& creation);
void Discard(Library& library, const Creation& creation);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_CREATION_H_
