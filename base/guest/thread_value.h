// A value of each thread, which exit handlers find as it was.
//
// A thread_local object with a destructor is destroyed for the main thread where exit()
// begins, before the exit handlers of libraries run, and these still call CUDA and NCCL
// (PyTorch 2.15 waits for the GPU there): they would write into what has been freed.
// Here the value of a thread that ends is deleted with it, and that of the thread that
// exits is left alone.
//
// Thread rule: each thread sees its own.

#ifndef VRANK_BASE_GUEST_THREAD_VALUE_H_
#define VRANK_BASE_GUEST_THREAD_VALUE_H_

#include <pthread.h>

namespace vrank {

// `Value`: a type of the caller's own; there is one value of it a thread.
template <class Value>
class ThreadValue {
 public:
  // Made at the first call.
  static Value& Mine() {
    if (mine_ == nullptr) [[unlikely]] {
      mine_ = new Value;
      pthread_setspecific(Key(), mine_);
    }
    return *mine_;
  }

 private:
  static pthread_key_t Key() {
    static const pthread_key_t key = [] {
      pthread_key_t made = 0;
      pthread_key_create(&made, [](void* value) {
        mine_ = nullptr;  // a later destructor of the thread may ask once more
        delete static_cast<Value*>(value);
      });
      return made;
    }();
    return key;
  }

  static inline constinit thread_local Value* mine_ = nullptr;
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_THREAD_VALUE_H_
