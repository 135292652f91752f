// Launches of executable graphs: what their nodes become on lanes, and what they do to
// memory.
//
// A launch is written as if the program had issued the graph's nodes one by one: work
// on lanes, and tokens between them (graph_plan.h). What it does to memory happens at
// each launch. The records are the same each time, so the first launch teaches them to
// the emulator and later ones name them (protocol::GraphLaunch), where nothing in them
// is new each time: host functions need an answer, events a number.
//
// Owns the numbers by which the emulator knows bodies; lanes and tokens are the
// executable graph's (graph_exec.h).
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_LAUNCHER_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_LAUNCHER_H_

#include <cstdint>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/copy_engine.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/events.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_allocations.h"
#include "virtual_gpu/core/graph_exec.h"
#include "virtual_gpu/core/kernel_effects.h"
#include "virtual_gpu/core/kernel_names.h"
#include "virtual_gpu/core/launch_records.h"
#include "virtual_gpu/core/library_memory.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/stream.h"
#include "virtual_gpu/core/stream_lanes.h"

namespace vrank::gpu {

class GraphLauncher {
 public:
  GraphLauncher(Channel* channel, Devices& devices, StreamLanes& lanes, Events& events,
                Obligations& obligations, LaunchRecords& launches, KernelNames& kernels,
                KernelEffects& effects, CopyEngine& copies,
                LibraryMemory& library_memory, GraphAllocations& allocations,
                ActivityNotes& notes)
      : channel_(channel),
        devices_(devices),
        lanes_(lanes),
        events_(events),
        obligations_(obligations),
        launches_(launches),
        kernels_(kernels),
        effects_(effects),
        copies_(copies),
        library_memory_(library_memory),
        allocations_(allocations),
        notes_(notes) {}

  // REQUIRES: the stream is not captured.
  Error Launch(GraphExec* exec, Stream* on);
  // The emulator need not remember the body any longer.
  void Forget(GraphExec* exec);
  // Forget, and gives lanes and tokens back.
  void DropLanes(GraphExec* exec);

 private:
  Error CheckLaunch(const GraphExec& exec);
  void TakeLanes(GraphExec* exec, int device);
  void IssueOrRepeat(GraphExec* exec, Stream* on);
  // `repeats`: the emulator remembers the records, so none is written but `record`.
  void WalkSteps(GraphExec* exec, Stream* on, bool repeats,
                 const protocol::GraphLaunch& record);
  void Step(GraphNode* node, Stream* lane, bool repeats);
  void StepCopy(const CopyRequest& request, Stream* lane, bool repeats);
  // Nodes of bodies that are not remembered, and those without a record.
  void StepOther(const GraphNodeContent& content, Stream* lane);

  Channel* const channel_;
  Devices& devices_;
  StreamLanes& lanes_;
  Events& events_;
  Obligations& obligations_;
  LaunchRecords& launches_;
  KernelNames& kernels_;
  KernelEffects& effects_;
  CopyEngine& copies_;
  LibraryMemory& library_memory_;
  GraphAllocations& allocations_;
  ActivityNotes& notes_;
  uint32_t next_number_ = 1;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_LAUNCHER_H_
