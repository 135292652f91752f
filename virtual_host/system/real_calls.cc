#include "virtual_host/system/real_calls.h"

#include <dlfcn.h>

namespace vrank::host {
namespace {

template <typename Function>
void Find(const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// glibc on x86-64 keeps the condition variables of 2002 under the same names; dlsym may
// give those.
template <typename Function>
void FindVersion(const char* name, const char* version, Function** function) {
  *function = reinterpret_cast<Function*>(dlvsym(RTLD_NEXT, name, version));
  if (*function == nullptr)
    Find(name, function);
}

RealCalls FindAll() {
  RealCalls real{};
#define VRANK_FIND(name) Find(#name, &real.name)
  VRANK_FIND(clock_gettime);
  VRANK_FIND(gettimeofday);
  VRANK_FIND(time);
  VRANK_FIND(clock);
  VRANK_FIND(timespec_get);
  VRANK_FIND(nanosleep);
  VRANK_FIND(clock_nanosleep);
  VRANK_FIND(sched_yield);
  VRANK_FIND(pthread_join);
  VRANK_FIND(pthread_barrier_init);
  VRANK_FIND(pthread_barrier_destroy);
  VRANK_FIND(pthread_barrier_wait);
  VRANK_FIND(sem_post);
  VRANK_FIND(sem_wait);
  VRANK_FIND(sem_trywait);
  VRANK_FIND(pthread_cond_clockwait);
  VRANK_FIND(pthread_mutex_lock);
  VRANK_FIND(pthread_mutex_unlock);
  VRANK_FIND(pthread_mutex_timedlock);
  VRANK_FIND(pthread_rwlock_rdlock);
  VRANK_FIND(pthread_rwlock_wrlock);
  VRANK_FIND(pthread_rwlock_unlock);
  VRANK_FIND(pthread_rwlock_timedrdlock);
  VRANK_FIND(pthread_rwlock_timedwrlock);
  VRANK_FIND(sem_timedwait);
  VRANK_FIND(pthread_mutex_clocklock);
  VRANK_FIND(pthread_rwlock_clockrdlock);
  VRANK_FIND(pthread_rwlock_clockwrlock);
  VRANK_FIND(sem_clockwait);
  VRANK_FIND(ppoll);
  VRANK_FIND(pselect);
  VRANK_FIND(epoll_create);
  VRANK_FIND(epoll_create1);
  VRANK_FIND(epoll_ctl);
  VRANK_FIND(epoll_pwait);
  VRANK_FIND(read);
  VRANK_FIND(readv);
  VRANK_FIND(recv);
  VRANK_FIND(recvfrom);
  VRANK_FIND(recvmsg);
  VRANK_FIND(accept);
  VRANK_FIND(accept4);
  VRANK_FIND(waitpid);
  VRANK_FIND(wait4);
  VRANK_FIND(waitid);
  VRANK_FIND(write);
  VRANK_FIND(writev);
  VRANK_FIND(send);
  VRANK_FIND(sendto);
  VRANK_FIND(sendmsg);
  VRANK_FIND(connect);
  VRANK_FIND(getaddrinfo);
  VRANK_FIND(getnameinfo);
  VRANK_FIND(gethostbyname_r);
  VRANK_FIND(gethostbyaddr_r);
  VRANK_FIND(execve);
  VRANK_FIND(execv);
  VRANK_FIND(execvp);
  VRANK_FIND(dlopen);
  VRANK_FIND(ptrace);
#undef VRANK_FIND
  FindVersion("pthread_cond_timedwait", "GLIBC_2.3.2", &real.pthread_cond_timedwait);
  FindVersion("pthread_cond_wait", "GLIBC_2.3.2", &real.pthread_cond_wait);
  FindVersion("pthread_cond_signal", "GLIBC_2.3.2", &real.pthread_cond_signal);
  FindVersion("pthread_cond_broadcast", "GLIBC_2.3.2", &real.pthread_cond_broadcast);
  // The older versions run a file without an interpreter's line by a shell.
  FindVersion("posix_spawn", "GLIBC_2.15", &real.posix_spawn);
  FindVersion("posix_spawnp", "GLIBC_2.15", &real.posix_spawnp);
  // Both versions are the same code since glibc 2.34.
  FindVersion("pthread_create", "GLIBC_2.34", &real.pthread_create);
  return real;
}

}  // namespace

const RealCalls& Real() {
  static const RealCalls real = FindAll();
  return real;
}

}  // namespace vrank::host
