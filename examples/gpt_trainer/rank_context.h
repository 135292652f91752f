// What every part of the model needs from its rank: sizes, groups, memory, stream.
//
// References only; the trainer owns the objects.

#ifndef EXAMPLES_GPT_TRAINER_RANK_CONTEXT_H_
#define EXAMPLES_GPT_TRAINER_RANK_CONTEXT_H_

#include "examples/gpt_trainer/caching_allocator.h"
#include "examples/gpt_trainer/device/matrix_multiply.h"
#include "examples/gpt_trainer/model_shape.h"
#include "examples/gpt_trainer/overlap.h"
#include "examples/gpt_trainer/parallel_groups.h"

namespace gpt {

struct RankContext {
  const ModelShape& shape;
  Coordinates at;
  const ParallelGroups& groups;
  CachingAllocator& allocator;
  const MatrixMultiply& multiply;
  StreamHandle compute;
  const Overlap* overlap;  // null where nothing overlaps

  bool first_stage() const { return shape.first_stage(at.pp); }
  bool last_stage() const { return shape.last_stage(at.pp); }
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_RANK_CONTEXT_H_
