// A documented rule of NCCL, checked through its public API alone.
//
// Every rank of a job runs the same cases in the same order. The program builds against
// NVIDIA's libnccl as well and must pass on real GPUs: what fails there is a mistake in
// the case, what fails under vrank only is a mistake in virtual_nccl. Hence no kernel,
// no test library, nothing of vrank.
//
// A row is one sentence of NVIDIA's documentation: where it stands (a page of the user
// guide such as "api/comms", or nccl.h), and a few words to find it by. Sentences that
// speak of performance, or tell users what they must not do, have no row.
//
// A check that fails is reported and its case goes on, so that one run shows all and
// ranks stay in step.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_SUITE_H_
#define VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_SUITE_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <span>

namespace conformance {

// What a case cannot do without; elsewhere it is reported as not applicable.
enum Needs : unsigned {
  kAnything = 0,
  kTwoRanks = 1 << 0,    // more ranks than one
  kThreeRanks = 1 << 1,  // more than two
  kEveryRank = 1 << 2,   // all ranks are processes: none is played
  kTwoDevices = 1 << 3,  // a process with more GPUs than one
  kReadsAgain = 1 << 6,  // variables of a process that has initialised NCCL before:
                         // NVIDIA's library has read them by then
  kNoDevice = 1 << 4,    // nothing: runs without GPU and communicator, too
  kHopper = 1 << 5,      // compute capability 9.0
};

struct Case {
  const char* id;
  const char* functions;  // names of the API that it checks, separated by spaces
  const char* page;       // of the user guide, or nccl.h
  const char* words;      // of the sentence
  void (*check)();
  unsigned needs = kAnything;
  const char* waits = nullptr;  // disabled: what is missing
};

// One list per chapter.
std::span<const Case> AggregationCases();
std::span<const Case> BlockCases();
std::span<const Case> CollectiveCases();
std::span<const Case> CommunicatorCases();
std::span<const Case> ConfigCases();
std::span<const Case> DataCases();
std::span<const Case> EnvironmentCases();
std::span<const Case> ErrorCases();
std::span<const Case> GroupCases();
std::span<const Case> LifetimeCases();
std::span<const Case> MemoryCases();
std::span<const Case> PointToPointCases();
std::span<const Case> ReductionCases();
std::span<const Case> ShrinkCases();
std::span<const Case> SplitCases();
std::span<const Case> StreamCases();
std::span<const Case> TypeCases();
std::span<const Case> VersionCases();

// Counts a failure of the case that runs.
void Fail(const char* file, int line, const char* what, const char* seen);

void ExpectCode(ncclResult_t seen, ncclResult_t wanted, const char* what,
                const char* file, int line);
void ExpectCuda(cudaError_t seen, const char* what, const char* file, int line);

}  // namespace conformance

#define EXPECT_OK(call) \
  conformance::ExpectCode((call), ncclSuccess, #call, __FILE__, __LINE__)
#define EXPECT_CODE(code, call) \
  conformance::ExpectCode((call), code, #call " == " #code, __FILE__, __LINE__)
#define EXPECT_CUDA(call) conformance::ExpectCuda((call), #call, __FILE__, __LINE__)
#define EXPECT_THAT(condition)                                    \
  do {                                                            \
    if (!(condition))                                             \
      conformance::Fail(__FILE__, __LINE__, #condition, "false"); \
  } while (false)

#endif  // VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_SUITE_H_
