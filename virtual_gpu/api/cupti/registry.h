// What CUPTI remembers to answer by id: contexts, streams, threads, names.
//
// Contexts and streams are learnt when they come and go, which the virtual GPU tells
// while somebody listens. Threads are numbered by the virtual GPU; CUPTI's records name
// them as the operating system does, so the first call of each thread ties the two
// together.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_CUPTI_REGISTRY_H_
#define VRANK_VIRTUAL_GPU_API_CUPTI_REGISTRY_H_

#include <cupti.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "virtual_gpu/core/activity.h"

namespace vrank::cupti {

// A context of the virtual GPU: each device has its primary one, whose handle is the
// device's number plus one (virtual_gpu/api/driver/entry.h).
inline CUcontext ContextOfDevice(int device) {
  return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device + 1));
}
inline uint32_t DeviceOfContext(const void* context) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context)) - 1;
}

class Registry {
 public:
  // --- Contexts. Ids are the virtual GPU's; 0 is none.
  void AddContext(uint32_t id, void* handle);
  void RemoveContext(void* handle);
  uint32_t FindContext(const void* handle);
  CUcontext HandleOf(uint32_t context_id);  // nullptr where the id is unknown
  uint32_t DeviceOf(uint32_t context_id);   // UINT32_MAX where the id is unknown

  // --- Streams
  void AddStream(const gpu::ActivityStream& stream, void* handle);
  void RemoveStream(void* handle);
  bool FindStream(const void* handle, gpu::ActivityStream* stream);
  std::vector<gpu::ActivityStream> Streams();

  // --- Nodes of graphs, and executable graphs; ids are the virtual GPU's, never reused
  void AddNode(const void* handle, uint64_t id);
  void RemoveNode(const void* handle);
  bool FindNode(const void* handle, uint64_t* id);
  void AddExec(const void* handle, uint32_t id);
  void RemoveExec(const void* handle);
  bool FindExec(const void* handle, uint32_t* id);

  // --- Threads
  // CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT is pthread_self(), _SYSTEM is gettid().
  void set_thread_id_type(CUpti_ActivityThreadIdType type) { type_.store(type); }
  CUpti_ActivityThreadIdType thread_id_type() const { return type_.load(); }
  // On the calling thread, when it makes call `call`.
  void NoteThread(uint32_t call);
  // The thread that the virtual GPU counts as `thread` made call `call`.
  void TieThread(uint32_t thread, uint32_t call);
  // How the operating system calls that thread; 0 where it has made no call.
  uint32_t ThreadId(uint32_t thread);

  // --- Names
  // A copy that lives as long as the process, the same for equal texts.
  const char* Keep(std::string_view text);

 private:
  struct ThreadIds {
    uint32_t posix = 0, system = 0;
  };

  std::mutex mutex_;
  std::map<const void*, uint32_t> contexts_;
  std::map<uint32_t, uint32_t> devices_;  // by context id; outlives the context
  std::map<const void*, gpu::ActivityStream> streams_;
  std::unordered_map<const void*, uint64_t> nodes_;
  std::unordered_map<const void*, uint32_t> execs_;
  std::unordered_map<uint32_t, ThreadIds> first_calls_;  // not tied yet
  std::unordered_map<uint32_t, ThreadIds> threads_;
  std::unordered_set<std::string> names_;
  std::atomic<CUpti_ActivityThreadIdType> type_{CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT};
};

}  // namespace vrank::cupti

#endif  // VRANK_VIRTUAL_GPU_API_CUPTI_REGISTRY_H_
