// The answer slots of this process: taking them, waiting on them, giving them back.
//
// A waiting thread spins for about a microsecond, in which an emulator that has a core
// of its own answers, and then sleeps. More spinning would take that core away where
// there are more ranks than cores.
//
// Thread rule: Take and GiveBack under the channel's lock; Wait on any thread without
// it.

#ifndef VRANK_VIRTUAL_HOST_TURNS_ANSWERS_H_
#define VRANK_VIRTUAL_HOST_TURNS_ANSWERS_H_

#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank::host {

class Answers {
 public:
  explicit Answers(protocol::Segment* segment);

  // A free slot, marked as asked; kNoSlot where all are taken. `issuer`: the thread
  // that will wait counts in running_issuers, and takes itself out once the question is
  // written.
  uint32_t Take(bool issuer);
  // Marks a slot taken without `issuer` as one that an issuing thread waits on from now
  // on. False: it is answered already, there is nothing to wait for.
  // The thread may sleep already.
  bool BecomeIssuer(uint32_t slot);
  void GiveBack(uint32_t slot);

  bool IsAnswered(uint32_t slot) const;
  // Returns the slot once it is answered; nullptr where the session has failed first,
  // and then the slot stays taken. Ends the process if the session ends first.
  const protocol::AnswerSlot* Wait(uint32_t slot);
  // Of a question that is answered after the failure, too.
  const protocol::AnswerSlot* WaitThroughFailure(uint32_t slot);

 private:
  const protocol::AnswerSlot* Wait(uint32_t slot, bool through_failure);

  protocol::Segment* const segment_;
  const int spins_;
  uint64_t taken_ = 0;  // one bit per slot
};
static_assert(protocol::kAnswerSlots == 64);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_ANSWERS_H_
