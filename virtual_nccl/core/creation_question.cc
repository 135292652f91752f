#include "virtual_nccl/core/creation_question.h"

#include <nccl.h>

#include <cstring>

namespace vrank::nccl {

bool IsInit(const Creation& creation) {
  return creation.parent == nullptr;
}

protocol::CommInit InitQuestion(Library& library, const Creation& creation,
                                uint32_t local_members) {
  const Communicator& joining = *creation.joining;
  protocol::CommInit question{};
  question.record.kind = protocol::RecordKind::kCommInit;
  question.communicator = creation.number;
  question.ranks = joining.ranks;
  question.rank = joining.rank;
  // A real GPU may stand in for several.
  question.device =
      library.gpu().HoldsStreams()
          ? protocol::kNone
          : static_cast<uint32_t>(library.gpu().NodeDevice(joining.device));
  question.name = library.channel().Name(creation.config.name);
  question.local_members = local_members;
  memcpy(question.unique_id, creation.id.internal, sizeof question.unique_id);
  return question;
}

protocol::CommSplit SplitQuestion(Library& library, const Creation& creation) {
  const bool member = creation.color != NCCL_SPLIT_NOCOLOR;
  protocol::CommSplit question{};
  question.record.kind = protocol::RecordKind::kCommSplit;
  question.parent = creation.parent->number;
  question.communicator = creation.number;
  question.color = creation.color;
  question.key = creation.key;
  question.name = member ? library.channel().Name(creation.config.name) : 0;
  question.excluded = static_cast<uint32_t>(creation.excluded.size());
  return question;
}

}  // namespace vrank::nccl
