// Colours number the groups; keys are the coordinate inside the group.

#include "examples/gpt_trainer/parallel_groups.h"

#include "examples/gpt_trainer/checks.h"

namespace gpt {

ParallelGroups::ParallelGroups(const World& world, const ModelShape& shape) {
  const ncclUniqueId id = AgreeOnUniqueId(world);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  GPT_CHECK_NCCL(
      ncclCommInitRankConfig(&world_.handle, world.size, id, world.rank, &config));
  world_.rank = world.rank;
  world_.size = world.size;

  const Coordinates at = shape.CoordinatesOf(world.rank);
  tensor_ = Split(at.pp * shape.dp + at.dp, at.tp, "tp");
  data_ = Split(at.pp * shape.tp + at.tp, at.dp, "dp");
  pipeline_ = Split(at.dp * shape.tp + at.tp, at.pp, "pp");
  if (shape.pp > 1) {  // one stage holds both ends of the model: nothing to share
    const bool first = shape.first_stage(at.pp);
    const bool member = first || shape.last_stage(at.pp);
    const int column = at.dp * shape.tp + at.tp;
    embedding_ =
        Split(member ? column : NCCL_SPLIT_NOCOLOR, first ? 0 : 1, "embedding");
  }
}

ParallelGroups::~ParallelGroups() {
  for (Communicator* group : {&embedding_, &pipeline_, &data_, &tensor_, &world_}) {
    if (group->handle != nullptr) {
      GPT_CHECK_NCCL(ncclCommFinalize(group->handle));
      GPT_CHECK_NCCL(ncclCommDestroy(group->handle));
    }
  }
}

Communicator ParallelGroups::Split(int color, int key, const char* name) const {
  Communicator group;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  GPT_CHECK_NCCL(ncclCommSplit(world_.handle, color, key, &group.handle, &config));
  if (group.handle != nullptr) {
    GPT_CHECK_NCCL(ncclCommUserRank(group.handle, &group.rank));
    GPT_CHECK_NCCL(ncclCommCount(group.handle, &group.size));
  }
  return group;
}

}  // namespace gpt
