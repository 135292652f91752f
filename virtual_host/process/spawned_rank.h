// Which rank a process is that its program has spawned: torch.multiprocessing.spawn, or
// Processes of Python's multiprocessing by the method "spawn". Such a program is its
// own launcher. It tells its processes apart by an argument that travels through a
// pipe, so a process is known by its place among its siblings, which are started one
// after the other.
//
// Thread rule: at load, while the process has one thread. Reads /proc.

#ifndef VRANK_VIRTUAL_HOST_PROCESS_SPAWNED_RANK_H_
#define VRANK_VIRTUAL_HOST_PROCESS_SPAWNED_RANK_H_

namespace vrank::host {

// The number of living siblings that were spawned before this process; -1 where it was
// not spawned itself.
int PlaceAmongSpawned();

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_PROCESS_SPAWNED_RANK_H_
