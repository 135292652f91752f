// The communicators of 3-D parallelism.
//
// All are children of the world communicator, in a fixed order that every rank follows:
// tensor, data, pipeline, embedding, context, experts. A rank's index in a child is its
// coordinate there.
//
// Thread rule: the thread that trains.

#ifndef EXAMPLES_GPT_TRAINER_PARALLEL_GROUPS_H_
#define EXAMPLES_GPT_TRAINER_PARALLEL_GROUPS_H_

#include "examples/gpt_trainer/device/communicator.h"
#include "examples/gpt_trainer/model_shape.h"
#include "examples/gpt_trainer/parameter_layout.h"
#include "examples/gpt_trainer/world.h"

namespace gpt {

class ParallelGroups {
 public:
  // Blocks until all ranks of the world have come.
  ParallelGroups(const World& world, const ModelShape& shape);

  const Communicator& world() const { return world_; }
  const Communicator& tensor() const { return tensor_; }
  // Ranks that hold the same parameters: data- and context-parallel ones.
  const Communicator& data() const { return data_; }
  const Communicator& pipeline() const { return pipeline_; }
  // First and last stage, which share the word embedding; of nobody elsewhere.
  const Communicator& embedding() const { return embedding_; }
  // Ranks that share sequences; of nobody with cp = 1.
  const Communicator& context() const { return context_; }
  // Ranks that share the experts of a layer, and ranks that hold the same experts; of
  // nobody without experts.
  const Communicator& expert() const { return expert_; }
  const Communicator& expert_data() const { return expert_data_; }
  // The ranks that hold the same parameters of this group.
  const Communicator& ReplicasOf(ParameterGroup group) const {
    return group == ParameterGroup::kExpert ? expert_data_ : data_;
  }

 private:
  // Destroyed from the last to the first: children before the world.
  Communicator world_;
  Communicator tensor_;
  Communicator data_;
  Communicator pipeline_;
  Communicator embedding_;
  Communicator context_;
  Communicator expert_;
  Communicator expert_data_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PARALLEL_GROUPS_H_
