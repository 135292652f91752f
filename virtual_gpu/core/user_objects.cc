#include "virtual_gpu/core/user_objects.h"

#include <memory>

namespace vrank::gpu {

void* UserObjects::Create(void* data, void (*destroy)(void*), unsigned references) {
  return objects_.Add(
      std::make_unique<UserObject>(UserObject{data, destroy, references}));
}

Error UserObjects::Retain(void* handle, unsigned count) {
  UserObject* const object = objects_.Find(handle);
  if (object == nullptr || count == 0)
    return Error::kInvalidValue;
  object->references += count;
  return Error::kSuccess;
}

Error UserObjects::Release(void* handle, unsigned count) {
  const UserObject* const object = objects_.Find(handle);
  if (object == nullptr || count == 0 || count > object->references)
    return Error::kInvalidValue;
  ReleaseOne(handle, count);
  return Error::kSuccess;
}

Error UserObjects::Retain(UserReferences* held, void* handle, unsigned count,
                          bool move) {
  UserObject* const object = objects_.Find(handle);
  if (object == nullptr || count == 0 || (move && count > object->references))
    return Error::kInvalidValue;
  if (!move)
    object->references += count;
  (*held)[handle] += count;
  return Error::kSuccess;
}

Error UserObjects::Release(UserReferences* held, void* handle, unsigned count) {
  const auto found = held->find(handle);
  if (count == 0 || found == held->end() || found->second < count)
    return Error::kInvalidValue;
  found->second -= count;
  if (found->second == 0)
    held->erase(found);
  ReleaseOne(handle, count);
  return Error::kSuccess;
}

void UserObjects::Retain(const UserReferences& references) {
  for (const auto& [handle, count] : references)
    objects_.Find(handle)->references += count;
}

void UserObjects::Release(const UserReferences& references) {
  for (const auto& [handle, count] : references)
    ReleaseOne(handle, count);
}

void UserObjects::ReleaseOne(void* handle, unsigned count) {
  UserObject* const object = objects_.Find(handle);
  object->references -= count;
  if (object->references > 0)
    return;
  const auto gone = objects_.Remove(handle);
  gone->destroy(gone->data);
}

}  // namespace vrank::gpu
