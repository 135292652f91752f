#include "virtual_host/system/preemption_mark.h"

#include <dlfcn.h>

#include <cstddef>

namespace vrank::host {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kSignature = 0x53053053;  // RSEQ_SIG of glibc's bits/rseq.h
#elif defined(__aarch64__)
constexpr uint32_t kSignature = 0xd428bc00;
#endif

// struct rseq_cs of linux/rseq.h.
struct alignas(32) Section {
  uint32_t version;
  uint32_t flags;
  uint64_t start_ip;
  uint64_t post_commit_offset;
  uint64_t abort_ip;
};

// What the kernel checks of a descriptor: that the signature stands before the place to
// go to on an abort, which never comes.
alignas(8) constinit const uint32_t nowhere[] = {0, kSignature, 0};

uint64_t SectionThatNeverRuns() {
  static const Section section{
      .version = 0,
      .flags = 0,
      .start_ip = reinterpret_cast<uint64_t>(&nowhere[0]),
      .post_commit_offset = 1,
      .abort_ip = reinterpret_cast<uint64_t>(&nowhere[2]),
  };
  return reinterpret_cast<uint64_t>(&section);
}

// Where struct rseq lies from the thread pointer; 0: the C library has registered none.
ptrdiff_t OffsetOfRseq() {
  static const ptrdiff_t offset = [] {
    const auto* const size =
        static_cast<const unsigned*>(dlsym(RTLD_DEFAULT, "__rseq_size"));
    const auto* const at =
        static_cast<const ptrdiff_t*>(dlsym(RTLD_DEFAULT, "__rseq_offset"));
    return size == nullptr || at == nullptr || *size == 0 ? ptrdiff_t{0} : *at;
  }();
  return offset;
}

}  // namespace

PreemptionMark PreemptionMark::OfThisThread() {
  constexpr ptrdiff_t kRseqCs = 8;  // of struct rseq
  PreemptionMark mark;
  const ptrdiff_t offset = OffsetOfRseq();
  if (offset == 0)
    return mark;
  mark.word_ = reinterpret_cast<volatile uint64_t*>(
      static_cast<char*>(__builtin_thread_pointer()) + offset + kRseqCs);
  mark.ours_ = SectionThatNeverRuns();
  return mark;
}

}  // namespace vrank::host
