// System calls without the C library.
//
// This library interposes libc's waits and `syscall` itself, so its own calls must not
// go through them. The result is the kernel's: negative error numbers, errno untouched.
//
// Thread rule: may be called from anywhere, signal handlers included.

#ifndef VRANK_VIRTUAL_HOST_SYSTEM_RAW_SYSCALL_H_
#define VRANK_VIRTUAL_HOST_SYSTEM_RAW_SYSCALL_H_

#include <sys/syscall.h>

namespace vrank::host {

template <typename T>
long SyscallArgument(T value) {
  return (long)value;  // pointers and integers alike
}

inline long RawSyscall6(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
#else
#error "virtual_host knows the system call conventions of x86-64 and arm64 only"
#endif
}

template <typename... T>
long RawSyscall(long number, T... arguments) {
  static_assert(sizeof...(T) <= 6);
  long values[6] = {SyscallArgument(arguments)...};
  return RawSyscall6(number, values[0], values[1], values[2], values[3], values[4],
                     values[5]);
}

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_SYSTEM_RAW_SYSCALL_H_
