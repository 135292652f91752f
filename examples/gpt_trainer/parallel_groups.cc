// Colours number the groups; keys are the coordinate inside the group.

#include "examples/gpt_trainer/parallel_groups.h"

namespace gpt {

ParallelGroups::ParallelGroups(const World& world, const ModelShape& shape)
    : world_(world) {
  const Coordinates at = shape.CoordinatesOf(world.rank);
  const int replica = at.dp * shape.cp + at.cp;
  const int column = replica * shape.tp + at.tp;  // ranks of one column: a pipeline
  tensor_ = world_.Split(at.pp * shape.replicas() + replica, at.tp, "tp");
  data_ = world_.Split(at.pp * shape.tp + at.tp, replica, "dp");
  pipeline_ = world_.Split(column, at.pp, "pp");
  if (shape.pp > 1) {  // one stage holds both ends of the model: nothing to share
    const bool first = shape.first_stage(at.pp);
    const bool member = first || shape.last_stage(at.pp);
    embedding_ = world_.Split(member ? column : Communicator::kNoColor, first ? 0 : 1,
                              "embedding");
  }
  if (shape.cp > 1) {
    context_ = world_.Split((at.pp * shape.dp + at.dp) * shape.tp + at.tp, at.cp, "cp");
  }
  if (shape.experts > 0) {
    // Neighbours in dp share experts; every ep-th one holds the same.
    const int block = at.dp / shape.ep;
    const int index = at.dp % shape.ep;
    const int blocks = shape.dp / shape.ep;
    expert_ = world_.Split(
        ((at.pp * blocks + block) * shape.cp + at.cp) * shape.tp + at.tp, index, "ep");
    expert_data_ = world_.Split(at.pp * shape.ep + index,
                                (block * shape.cp + at.cp) * shape.tp + at.tp, "edp");
  }
}

}  // namespace gpt
