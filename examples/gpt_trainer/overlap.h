// A second stream for communication that overlaps with computation.
//
// Begin() ... calls on stream() ... End(): what is called on stream() waits for all
// work that the compute stream holds at Begin; work that the compute stream gets after
// End waits for it. In between both go on. Buffers that the second stream uses may be
// given back after End only.

#ifndef EXAMPLES_GPT_TRAINER_OVERLAP_H_
#define EXAMPLES_GPT_TRAINER_OVERLAP_H_

#include "examples/gpt_trainer/device/device.h"

namespace gpt {

class Overlap {
 public:
  explicit Overlap(StreamHandle compute) : compute_(compute) {}

  StreamHandle stream() const { return stream_.get(); }

  void Begin() const {
    ready_.Record(compute_);
    ready_.Await(stream_.get());
  }
  void End() const {
    done_.Record(stream_.get());
    done_.Await(compute_);
  }

 private:
  StreamHandle compute_;
  Stream stream_;
  Event ready_;
  Event done_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_OVERLAP_H_
