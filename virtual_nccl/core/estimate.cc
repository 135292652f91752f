// One question per call; the network model is the emulator's.

#include "virtual_nccl/core/estimate.h"

#include <algorithm>

namespace vrank::nccl {
namespace {

int64_t NanosecondsOf(Library& library, const Call& call) {
  protocol::Estimate question{};
  question.record.kind = protocol::RecordKind::kEstimate;
  question.communicator = call.communicator->number;
  question.count = call.IsCollective() ? call.count : call.bytes();
  question.root = call.root;
  question.operation = call.operation;
  question.type = call.type;
  question.reduction = call.reduction;
  question.transfer = static_cast<uint8_t>(call.kind == Request::kCollective ? 0
                                           : call.kind == Request::kSend     ? 1
                                                                             : 2);
  return static_cast<int64_t>(library.channel().Ask(question).value);
}

}  // namespace

float EstimateMicroseconds(Library& library, std::span<const Call* const> calls) {
  if (calls.front()->communicator->ranks == 1)
    return 0;
  int64_t collectives = 0, transfers = 0;
  for (const Call* call : calls) {
    const int64_t own = NanosecondsOf(library, *call);
    if (call->IsCollective())
      collectives += own;
    else
      transfers = std::max(transfers, own);
  }
  return static_cast<float>(collectives + transfers) / 1000;
}

}  // namespace vrank::nccl
