// Opens a library that only its own RUNPATH leads to, or none.

#include <dlfcn.h>

extern "C" void* OpenInner() {
  // Not the last thing this function does: a tail call would make its caller the one
  // whose RUNPATH counts.
  void* volatile inner = dlopen(VRANK_TEST_OPENED, RTLD_NOW);
  return inner;
}
