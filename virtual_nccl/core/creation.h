// How communicators come into being: init from a unique id, split or shrink of a
// parent.
//
// All are rendezvous of the members' host threads. A call checks its arguments and
// joins the thread's group; the end of the group holds the meetings (meeting.h). Who
// the members are is the emulator's matter: the answer to a split says how many there
// are and which of them this one is.
//
// A process may have several members, a GPU each. They join in one group, as NCCL
// demands where one thread makes several of them, or from several threads.
//
// Thread rule: may be called from any thread; what ends a group waits for other
// processes, and holds no lock meanwhile.

#ifndef VRANK_VIRTUAL_NCCL_CORE_CREATION_H_
#define VRANK_VIRTUAL_NCCL_CORE_CREATION_H_

#include <nccl.h>

#include <cstdint>
#include <vector>

#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

class Group;

// One member of a communicator to be made at the end of a group.
struct Creation {
  const char* function;
  uint64_t order;   // equal on all members; see group.h
  uint32_t number;  // the new communicator's
  ncclComm_t* out;  // where the program wants the handle
  Config config;
  // Init: the communicator, still joining, whose handle the program has already.
  Communicator* joining = nullptr;
  ncclUniqueId id{};
  // Split and shrink.
  Communicator* parent = nullptr;
  uint32_t splits_before = 0;  // splits and shrinks of the parent
  int color = 0;
  int key = 0;
  std::vector<uint32_t> excluded;  // shrink: ascending
  bool aborts = false;             // shrink: what is in flight has been stopped
};

inline constexpr int kCurrentDevice = -1;

struct InitArguments {
  const char* function = "";
  ncclComm_t* out = nullptr;
  int ranks = 0;
  int rank = 0;
  int id_count = 1;
  const ncclUniqueId* ids = nullptr;     // the first one names the communicator
  const ncclConfig_t* config = nullptr;  // nullptr: `inherited`, or NCCL's defaults
  const Config* inherited = nullptr;
  int device = kCurrentDevice;
};

struct ShrinkArguments {
  ncclComm_t parent = nullptr;
  int* excluded = nullptr;  // sorted by the call, as NCCL does
  int excluded_count = 0;
  ncclComm_t* out = nullptr;
  const ncclConfig_t* config = nullptr;  // nullptr: the parent's
  int flags = NCCL_SHRINK_DEFAULT;
};

struct GrowArguments {
  ncclComm_t parent = nullptr;  // nullptr: a rank that joins
  int ranks = 0;
  const ncclUniqueId* id = nullptr;  // of ranks that join, and of one member
  int rank = -1;                     // of ranks that join
  ncclComm_t* out = nullptr;
  const ncclConfig_t* config = nullptr;  // nullptr: the parent's
};

// The entry points, each a group of its own where none is open. InProgress where a
// communicator does not block and its other members have not been waited for.
ncclResult_t InitRank(Library& library, Group& group, const InitArguments& arguments);
ncclResult_t InitAll(Library& library, Group& group, ncclComm_t* out, int count,
                     const int* devices);
ncclResult_t Split(Library& library, Group& group, ncclComm_t parent, int color,
                   int key, ncclComm_t* out, const ncclConfig_t* config);
ncclResult_t Shrink(Library& library, Group& group, const ShrinkArguments& arguments);
// A grow is an init in which the parent's members keep their places; the parent stays
// usable. GrowId: the id for the ranks that join the next one.
ncclResult_t GrowId(Library& library, ncclComm_t parent, ncclUniqueId* id);
ncclResult_t Grow(Library& library, Group& group, const GrowArguments& arguments);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_CREATION_H_
