// Meetings of a communicator's members: what the end of a group does with creations.
//
// This process asks for each of its members and waits for the last answer, which comes
// when everyone has arrived. Where the communicator does not block, nobody waits: the
// emulator lets a token end at that time, and polls (ncclCommGetAsyncError) ask about
// it, so that a poll finds the communicator made at the same virtual time in every run.
//
// Thread rule: may be called from any thread; Meet waits for other processes, and holds
// no lock meanwhile.

#ifndef VRANK_VIRTUAL_NCCL_CORE_MEETING_H_
#define VRANK_VIRTUAL_NCCL_CORE_MEETING_H_

#include <nccl.h>

#include <span>

#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

// How many creations at the front are members of one communicator in the making (or
// calls of one split), which have to join together. REQUIRES: not empty.
size_t CountTogether(std::span<const Creation> creations);

// Meets the other members. An init's handle is the program's since the call, and stays
// valid after a failure; that of a child is handed out here, or by the poll that finds
// it made: NCCL, too, writes it when the split has ended. InProgress where the
// communicator does not block. REQUIRES: CountTogether(members) == members.size().
ncclResult_t Meet(Library& library, std::span<const Creation> members);

// All members' host threads meet, and nothing is made of it. `members`: those of this
// process that call together; not empty. `function`: for the message.
ncclResult_t MeetOnly(Library& library, std::span<Communicator* const> members,
                      const char* function);

// Gives up before that, because of `failure`.
void Discard(Library& library, const Creation& creation, ncclResult_t failure);

// What became of the meetings that `communicator` is, or is the parent of, and that
// nobody has waited for: Success once none is left, InProgress, or the first failure of
// one, from then on.
ncclResult_t PollMeetings(Library& library, Communicator* communicator);
// The communicator, which is still joining, will not be used.
void AbandonMeeting(Library& library, Communicator* communicator);

// The communicator behind `handle`, which must be usable: InvalidArgument for one that
// is not yet, or not any more. A revoked one is found, too.
ncclResult_t FindReadyCommunicator(Library& library, ncclComm_t handle,
                                   const char* function, Communicator** found,
                                   bool may_be_finalized = false);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_MEETING_H_
