// Starts a thread and reads the clock while the loader's lock is held, as libraries of
// Apache Arrow and others do when they are opened.

#include <pthread.h>
#include <time.h>

namespace {

void* Nothing(void*) {
  return nullptr;
}

__attribute__((constructor)) void Start() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Nothing, nullptr) == 0)
    pthread_detach(thread);
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
}

}  // namespace
