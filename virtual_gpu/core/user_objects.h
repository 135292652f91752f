// User objects (cudaUserObject_t): what lives as long as the program or graphs hold it.
//
// Owns the objects. The last release runs the object's destructor: "The destructor must
// not make CUDA calls", so it may run under the lock.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_USER_OBJECTS_H_
#define VRANK_VIRTUAL_GPU_CORE_USER_OBJECTS_H_

#include <cstdint>

#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/handle_table.h"

namespace vrank::gpu {

class UserObjects {
 public:
  // References of the program.
  void* Create(void* data, void (*destroy)(void*), unsigned references);
  Error Retain(void* handle, unsigned count);
  Error Release(void* handle, unsigned count);

  // References of a graph: more of them, which the program may hand over (`move`), and
  // fewer; all of them, of a graph that is cloned or goes.
  Error Retain(UserReferences* held, void* handle, unsigned count, bool move);
  Error Release(UserReferences* held, void* handle, unsigned count);
  void Retain(const UserReferences& references);
  void Release(const UserReferences& references);

 private:
  struct UserObject {
    void* data = nullptr;
    void (*destroy)(void*) = nullptr;
    uint64_t references = 0;
  };
  void ReleaseOne(void* handle, unsigned count);

  HandleTable<UserObject, 0x63> objects_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_USER_OBJECTS_H_
