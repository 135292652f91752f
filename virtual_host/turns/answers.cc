#include "virtual_host/turns/answers.h"

#include <unistd.h>

#include <bit>

#include "schedule/policy.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/session_end.h"

namespace vrank::host {
namespace {

constexpr uint32_t Word(protocol::SlotState state) {
  return static_cast<uint32_t>(state);
}
constexpr uint32_t kAsked = Word(protocol::SlotState::kAsked);
constexpr uint32_t kSleeping = Word(protocol::SlotState::kSleeping);
constexpr uint32_t kAnswered = Word(protocol::SlotState::kAnswered);

// About 1 us of `pause` (40 to 140 cycles each, by CPU generation). On a machine with a
// single core the emulator cannot run while we spin. Our own affinity says nothing
// about the emulator's.
int SpinsOfThisMachine() {
  return sysconf(_SC_NPROCESSORS_ONLN) == 1 ? 0 : 32;
}

}  // namespace

Answers::Answers(protocol::Segment* segment)
    : segment_(segment), spins_(SpinsOfThisMachine()) {}

uint32_t Answers::Take(bool issuer) {
  if (taken_ == ~uint64_t{0})
    return protocol::kNoSlot;
  const uint32_t slot = static_cast<uint32_t>(std::countr_one(taken_));
  taken_ |= uint64_t{1} << slot;
  // Published to the emulator by the ring's store of the question that names it.
  segment_->answers[slot].state.store(kAsked | (issuer ? protocol::kIssuerWaits : 0),
                                      std::memory_order_relaxed);
  return slot;
}

bool Answers::BecomeIssuer(uint32_t slot) {
  std::atomic<uint32_t>& word = segment_->answers[slot].state;
  uint32_t state = word.load(std::memory_order_acquire);
  while (state == kAsked || state == kSleeping) {
    if (word.compare_exchange_weak(state, state | protocol::kIssuerWaits,
                                   std::memory_order_acq_rel))
      return true;
  }
  return false;
}

void Answers::GiveBack(uint32_t slot) {
  segment_->answers[slot].state.store(Word(protocol::SlotState::kFree),
                                      std::memory_order_relaxed);
  taken_ &= ~(uint64_t{1} << slot);
}

bool Answers::IsAnswered(uint32_t slot) const {
  return segment_->answers[slot].state.load(std::memory_order_acquire) == kAnswered;
}

const protocol::AnswerSlot* Answers::Wait(uint32_t slot) {
  return Wait(slot, /*through_failure=*/false);
}

const protocol::AnswerSlot* Answers::WaitThroughFailure(uint32_t slot) {
  return Wait(slot, /*through_failure=*/true);
}

const protocol::AnswerSlot* Answers::Wait(uint32_t slot, bool through_failure) {
  protocol::AnswerSlot& answer = segment_->answers[slot];
  for (int i = 0; i < spins_; ++i) {
    if (answer.state.load(std::memory_order_acquire) == kAnswered)
      return &answer;
    CpuRelax();
  }
  for (;;) {
    uint32_t state = answer.state.load(std::memory_order_acquire);
    if (state == kAnswered)
      return &answer;
    ExitIfAborting(segment_->header);
    if (!through_failure && HasFailed(segment_->header))
      return nullptr;
    const uint32_t sleeping = kSleeping | (state & protocol::kIssuerWaits);
    if (state == sleeping || answer.state.compare_exchange_strong(
                                 state, sleeping, std::memory_order_acq_rel))
      FutexWait(&answer.state, sleeping, schedule::kAnswerSlice, /*shared=*/true);
  }
}

}  // namespace vrank::host
