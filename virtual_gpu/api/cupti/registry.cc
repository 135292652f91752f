#include "virtual_gpu/api/cupti/registry.h"

#include <pthread.h>
#include <unistd.h>

namespace vrank::cupti {
namespace {

// The calling thread's first call has been noted.
thread_local bool noted = false;

}  // namespace

void Registry::AddContext(uint32_t id, void* handle) {
  std::lock_guard guard(mutex_);
  contexts_[handle] = id;
  devices_[id] = DeviceOfContext(handle);
}

void Registry::RemoveContext(void* handle) {
  std::lock_guard guard(mutex_);
  contexts_.erase(handle);
}

uint32_t Registry::FindContext(const void* handle) {
  std::lock_guard guard(mutex_);
  const auto found = contexts_.find(handle);
  return found == contexts_.end() ? 0 : found->second;
}

uint32_t Registry::DeviceOf(uint32_t context_id) {
  std::lock_guard guard(mutex_);
  const auto found = devices_.find(context_id);
  return found == devices_.end() ? UINT32_MAX : found->second;
}

CUcontext Registry::HandleOf(uint32_t context_id) {
  const uint32_t device = DeviceOf(context_id);
  return device == UINT32_MAX ? nullptr : ContextOfDevice(static_cast<int>(device));
}

void Registry::AddStream(const gpu::ActivityStream& stream, void* handle) {
  std::lock_guard guard(mutex_);
  streams_[handle] = stream;
}

void Registry::RemoveStream(void* handle) {
  std::lock_guard guard(mutex_);
  streams_.erase(handle);
}

bool Registry::FindStream(const void* handle, gpu::ActivityStream* stream) {
  std::lock_guard guard(mutex_);
  const auto found = streams_.find(handle);
  if (found == streams_.end())
    return false;
  *stream = found->second;
  return true;
}

void Registry::AddNode(const void* handle, uint64_t id) {
  std::lock_guard guard(mutex_);
  nodes_[handle] = id;
}

void Registry::RemoveNode(const void* handle) {
  std::lock_guard guard(mutex_);
  nodes_.erase(handle);
}

bool Registry::FindNode(const void* handle, uint64_t* id) {
  std::lock_guard guard(mutex_);
  const auto found = nodes_.find(handle);
  if (found == nodes_.end())
    return false;
  *id = found->second;
  return true;
}

void Registry::AddExec(const void* handle, uint32_t id) {
  std::lock_guard guard(mutex_);
  execs_[handle] = id;
}

void Registry::RemoveExec(const void* handle) {
  std::lock_guard guard(mutex_);
  execs_.erase(handle);
}

bool Registry::FindExec(const void* handle, uint32_t* id) {
  std::lock_guard guard(mutex_);
  const auto found = execs_.find(handle);
  if (found == execs_.end())
    return false;
  *id = found->second;
  return true;
}

std::vector<gpu::ActivityStream> Registry::Streams() {
  std::lock_guard guard(mutex_);
  std::vector<gpu::ActivityStream> streams;
  for (const auto& [handle, stream] : streams_)
    streams.push_back(stream);
  return streams;
}

void Registry::NoteThread(uint32_t call) {
  if (noted)
    return;
  noted = true;
  ThreadIds ids;
  ids.posix = static_cast<uint32_t>(pthread_self());
  ids.system = static_cast<uint32_t>(gettid());
  std::lock_guard guard(mutex_);
  first_calls_[call] = ids;
}

void Registry::TieThread(uint32_t thread, uint32_t call) {
  std::lock_guard guard(mutex_);
  if (first_calls_.empty())
    return;
  const auto found = first_calls_.find(call);
  if (found == first_calls_.end())
    return;
  threads_[thread] = found->second;
  first_calls_.erase(found);
}

uint32_t Registry::ThreadId(uint32_t thread) {
  std::lock_guard guard(mutex_);
  const auto found = threads_.find(thread);
  if (found == threads_.end())
    return 0;
  return type_.load() == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? found->second.system
                                                              : found->second.posix;
}

const char* Registry::Keep(std::string_view text) {
  std::lock_guard guard(mutex_);
  return names_.emplace(text).first->c_str();
}

}  // namespace vrank::cupti
