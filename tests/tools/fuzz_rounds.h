// The loop of a fuzz test: deterministic, and short unless asked otherwise.
//
//   VRANK_FUZZ_ROUNDS   how many inputs; 10,000 without it
//   VRANK_FUZZ_SEED     of the first input; 1 without it
//
// An input that takes more than kMostSeconds of CPU time ends the program with its
// number, which is the seed that makes it again as the only one. Real time would count
// what other programs do.

#ifndef VRANK_TESTS_TOOLS_FUZZ_ROUNDS_H_
#define VRANK_TESTS_TOOLS_FUZZ_ROUNDS_H_

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace vrank {

inline std::atomic<uint64_t> fuzz_input{0};

inline void OnFuzzSignal(int number) {
  char line[96];
  const int length = std::snprintf(line, sizeof line,
                                   "fuzz: signal %d in input %llu (VRANK_FUZZ_SEED)\n",
                                   number, (unsigned long long)fuzz_input.load());
  (void)!write(STDERR_FILENO, line, static_cast<size_t>(length));
  signal(number, SIG_DFL);
  raise(number);
}

// Calls run(random) for every input.
template <class Run>
void FuzzRounds(Run run) {
  constexpr time_t kMostSeconds = 30;
  const auto limit = [](time_t seconds) {
    const itimerval timer{{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &timer, nullptr);
  };
  const auto stated = [](const char* name, uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  };
  for (const int number : {SIGPROF, SIGSEGV, SIGABRT, SIGFPE, SIGBUS})
    signal(number, OnFuzzSignal);
  const uint64_t first = stated("VRANK_FUZZ_SEED", 1);
  const uint64_t rounds = stated("VRANK_FUZZ_ROUNDS", 10'000);
  for (fuzz_input = first; fuzz_input < first + rounds; ++fuzz_input) {
    limit(kMostSeconds);
    std::mt19937 random(static_cast<uint32_t>(fuzz_input));
    run(&random);
  }
  limit(0);
}

}  // namespace vrank

#endif  // VRANK_TESTS_TOOLS_FUZZ_ROUNDS_H_
