// A thread's group: what was called between ncclGroupStart and ncclGroupEnd.
//
// Every call belongs to a group; one outside of Start and End is a group of its own. So
// there is one way from a call to the stream: Start, Add, End. Groups nest by counting;
// nothing happens before the outermost End, which returns the first failure of the
// group and then launches nothing.
//
// Inits wait for other processes, and those may list them in another order. The
// outermost End goes through them by their communicators' hash, which is equal on all
// members: processes that agree on an order cannot wait for each other in a circle.
// Members of one communicator in this process join together (meeting.h). Operations of
// several communicators are launched in that order, too, as by NCCL: on one stream,
// ranks that list them in different orders would wait for each other.
//
// Thread rule: each thread has its own.

#ifndef VRANK_VIRTUAL_NCCL_CORE_GROUP_H_
#define VRANK_VIRTUAL_NCCL_CORE_GROUP_H_

#include <nccl.h>

#include <vector>

#include "virtual_nccl/core/call.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

class Group {
 public:
  void Start() { ++depth_; }
  // InvalidUsage without a Start.
  ncclResult_t End(Library& library);
  // Ends one level like End, but launches nothing: *microseconds is what the group's
  // calls would take by the emulator's model, the communicators side by side; untouched
  // where the group has no calls or is not the outermost. Creations are made.
  ncclResult_t SimulateEnd(Library& library, float* microseconds);
  bool IsOpen() const { return depth_ > 0; }

  // The group fails with `result` unless it has failed before. Nothing if none is open.
  // Returns `result`.
  ncclResult_t Note(ncclResult_t result);

  // InvalidArgument where blocking and nonblocking communicators meet in one group.
  // REQUIRES: IsOpen().
  ncclResult_t Add(const Call& call);
  ncclResult_t Add(Creation creation);
  // A window of the communicator is registered at the end of the group.
  ncclResult_t AddWindow(Communicator* communicator);

 private:
  enum class Purpose { kLaunch, kSimulate };
  enum class Blocking { kUnknown, kYes, kNo };

  // Runs or, after a failure, discards what was added.
  ncclResult_t Finish(Library& library, Purpose purpose, float* microseconds);
  // `failure`: the group's; unless it is a success, none is made.
  ncclResult_t MakeCommunicators(Library& library, ncclResult_t failure);
  ncclResult_t MeetForWindows(Library& library);
  ncclResult_t NoteBlocking(const Config& config);
  // Each communicator's calls in their order; the communicators by their hash.
  std::vector<std::vector<const Call*>> CallsByCommunicator() const;

  int depth_ = 0;
  Blocking blocking_ = Blocking::kUnknown;
  ncclResult_t failure_ = ncclSuccess;
  std::vector<Call> calls_;
  std::vector<Creation> creations_;
  std::vector<Communicator*> windows_;
};

// The way of every collective, send and receive.
ncclResult_t Enqueue(Library& library, Group& group, const Request& request);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_GROUP_H_
