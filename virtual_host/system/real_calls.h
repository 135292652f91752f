// The C library's own functions behind the ones that this library interposes.
//
// Thread rule: Real() may be called from any thread, also before this library's
// constructor has run.

#ifndef VRANK_VIRTUAL_HOST_SYSTEM_REAL_CALLS_H_
#define VRANK_VIRTUAL_HOST_SYSTEM_REAL_CALLS_H_

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

namespace vrank::host {

struct RealCalls {
  int (*clock_gettime)(clockid_t, timespec*);
  int (*gettimeofday)(timeval*, void*);
  time_t (*time)(time_t*);
  clock_t (*clock)();
  int (*timespec_get)(timespec*, int);
  int (*nanosleep)(const timespec*, timespec*);
  int (*clock_nanosleep)(clockid_t, int, const timespec*, timespec*);
  int (*pthread_create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  int (*pthread_join)(pthread_t, void**);
  int (*pthread_barrier_init)(pthread_barrier_t*, const pthread_barrierattr_t*,
                              unsigned);
  int (*pthread_barrier_destroy)(pthread_barrier_t*);
  int (*pthread_barrier_wait)(pthread_barrier_t*);
  int (*pthread_cond_wait)(pthread_cond_t*, pthread_mutex_t*);
  int (*pthread_cond_signal)(pthread_cond_t*);
  int (*pthread_cond_broadcast)(pthread_cond_t*);
  int (*sem_post)(sem_t*);
  int (*sem_wait)(sem_t*);
  int (*sem_trywait)(sem_t*);
  int (*sched_yield)();
  int (*pthread_cond_timedwait)(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  int (*pthread_cond_clockwait)(pthread_cond_t*, pthread_mutex_t*, clockid_t,
                                const timespec*);
  int (*pthread_mutex_lock)(pthread_mutex_t*);
  int (*pthread_mutex_unlock)(pthread_mutex_t*);
  int (*pthread_mutex_timedlock)(pthread_mutex_t*, const timespec*);
  int (*pthread_rwlock_rdlock)(pthread_rwlock_t*);
  int (*pthread_rwlock_wrlock)(pthread_rwlock_t*);
  int (*pthread_rwlock_unlock)(pthread_rwlock_t*);
  int (*pthread_rwlock_timedrdlock)(pthread_rwlock_t*, const timespec*);
  int (*pthread_rwlock_timedwrlock)(pthread_rwlock_t*, const timespec*);
  int (*sem_timedwait)(sem_t*, const timespec*);
  int (*pthread_mutex_clocklock)(pthread_mutex_t*, clockid_t, const timespec*);
  int (*pthread_rwlock_clockrdlock)(pthread_rwlock_t*, clockid_t, const timespec*);
  int (*pthread_rwlock_clockwrlock)(pthread_rwlock_t*, clockid_t, const timespec*);
  int (*sem_clockwait)(sem_t*, clockid_t, const timespec*);
  int (*ppoll)(pollfd*, nfds_t, const timespec*, const sigset_t*);
  int (*pselect)(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*);
  int (*epoll_create)(int);
  int (*epoll_create1)(int);
  int (*epoll_ctl)(int, int, int, epoll_event*);
  int (*epoll_pwait)(int, epoll_event*, int, int, const sigset_t*);
  ssize_t (*read)(int, void*, size_t);
  ssize_t (*readv)(int, const iovec*, int);
  ssize_t (*recv)(int, void*, size_t, int);
  ssize_t (*recvfrom)(int, void*, size_t, int, sockaddr*, socklen_t*);
  ssize_t (*recvmsg)(int, msghdr*, int);
  int (*accept)(int, sockaddr*, socklen_t*);
  int (*accept4)(int, sockaddr*, socklen_t*, int);
  pid_t (*waitpid)(pid_t, int*, int);
  pid_t (*wait4)(pid_t, int*, int, rusage*);
  int (*waitid)(idtype_t, id_t, siginfo_t*, int);
  ssize_t (*write)(int, const void*, size_t);
  ssize_t (*writev)(int, const iovec*, int);
  ssize_t (*send)(int, const void*, size_t, int);
  ssize_t (*sendto)(int, const void*, size_t, int, const sockaddr*, socklen_t);
  ssize_t (*sendmsg)(int, const msghdr*, int);
  int (*connect)(int, const sockaddr*, socklen_t);
  int (*getaddrinfo)(const char*, const char*, const addrinfo*, addrinfo**);
  int (*getnameinfo)(const sockaddr*, socklen_t, char*, socklen_t, char*, socklen_t,
                     int);
  int (*gethostbyname_r)(const char*, hostent*, char*, size_t, hostent**, int*);
  int (*gethostbyaddr_r)(const void*, socklen_t, int, hostent*, char*, size_t,
                         hostent**, int*);
  int (*posix_spawn)(pid_t*, const char*, const posix_spawn_file_actions_t*,
                     const posix_spawnattr_t*, char* const[], char* const[]);
  int (*posix_spawnp)(pid_t*, const char*, const posix_spawn_file_actions_t*,
                      const posix_spawnattr_t*, char* const[], char* const[]);
  int (*execve)(const char*, char* const[], char* const[]);
  int (*execv)(const char*, char* const[]);
  int (*execvp)(const char*, char* const[]);
  void* (*dlopen)(const char*, int);
  long (*ptrace)(int request, ...);
};

const RealCalls& Real();

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_SYSTEM_REAL_CALLS_H_
