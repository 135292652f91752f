// CHECK, for the programs that tests run with the library preloaded: says what was
// wrong, on the output that the test compares, and ends the program.

#ifndef VRANK_TESTS_VIRTUAL_HOST_GUEST_CHECK_H_
#define VRANK_TESTS_VIRTUAL_HOST_GUEST_CHECK_H_

#include <unistd.h>

#include <cstdio>

#define CHECK(condition)                                       \
  do {                                                         \
    if (!(condition)) {                                        \
      printf("failed at line %d: %s\n", __LINE__, #condition); \
      fflush(stdout);                                          \
      _exit(1);                                                \
    }                                                          \
  } while (false)

#endif  // VRANK_TESTS_VIRTUAL_HOST_GUEST_CHECK_H_
