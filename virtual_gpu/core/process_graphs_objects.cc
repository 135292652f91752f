// User objects: what lives as long as the graphs that hold it.

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_graphs.h"

namespace vrank::gpu {

Error ProcessGraphs::CreateUserObject(void* data, void (*destroy)(void*),
                                      unsigned references, void** object) {
  if (object == nullptr || destroy == nullptr || references == 0)
    return Error::kInvalidValue;
  ProcessGpu::Lock lock(gpu_.mutex_);
  *object = user_objects_.Add(
      std::make_unique<UserObject>(UserObject{data, destroy, references}));
  return Error::kSuccess;
}

Error ProcessGraphs::RetainUserObject(void* handle, unsigned count) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  UserObject* const object = user_objects_.Find(handle);
  if (object == nullptr || count == 0)
    return Error::kInvalidValue;
  object->references += count;
  return Error::kSuccess;
}

Error ProcessGraphs::ReleaseUserObject(void* handle, unsigned count) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const UserObject* const object = user_objects_.Find(handle);
  if (object == nullptr || count == 0 || count > object->references)
    return Error::kInvalidValue;
  ReleaseOne(handle, count);
  return Error::kSuccess;
}

Error ProcessGraphs::RetainForGraph(void* graph_handle, void* handle, unsigned count,
                                    bool move) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  Graph* const graph = FindGraph(graph_handle);
  UserObject* const object = user_objects_.Find(handle);
  if (graph == nullptr || object == nullptr || count == 0 ||
      (move && count > object->references))
    return Error::kInvalidValue;
  if (!move)
    object->references += count;
  graph->user_objects[handle] += count;
  return Error::kSuccess;
}

Error ProcessGraphs::ReleaseFromGraph(void* graph_handle, void* handle,
                                      unsigned count) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  Graph* const graph = FindGraph(graph_handle);
  if (graph == nullptr || count == 0)
    return Error::kInvalidValue;
  const auto held = graph->user_objects.find(handle);
  if (held == graph->user_objects.end() || held->second < count)
    return Error::kInvalidValue;
  held->second -= count;
  if (held->second == 0)
    graph->user_objects.erase(held);
  ReleaseOne(handle, count);
  return Error::kSuccess;
}

void ProcessGraphs::Retain(const UserReferences& references) {
  for (const auto& [handle, count] : references)
    user_objects_.Find(handle)->references += count;
}

void ProcessGraphs::Release(const UserReferences& references) {
  for (const auto& [handle, count] : references)
    ReleaseOne(handle, count);
}

// "The destructor must not make CUDA calls", so it may run here.
void ProcessGraphs::ReleaseOne(void* handle, unsigned count) {
  UserObject* const object = user_objects_.Find(handle);
  object->references -= count;
  if (object->references > 0)
    return;
  const auto gone = user_objects_.Remove(handle);
  gone->destroy(gone->data);
}

}  // namespace vrank::gpu
