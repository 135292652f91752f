// Communicators that come into being, with a channel that answers as told.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_CREATION_FIXTURE_H_
#define VRANK_TESTS_VIRTUAL_NCCL_CREATION_FIXTURE_H_

#include "tests/virtual_nccl/nccl_fixture.h"
#include "virtual_nccl/core/creation.h"

namespace vrank::nccl {

class CreationTest : public NcclTest {
 protected:
  CreationTest() {
    channel.mutable_settings().communicator_bytes = 1000;
    channel.mutable_settings().communicator_peer_bytes = 10;
  }
  ncclResult_t Init(ncclComm_t* out, int ranks, int rank, const ncclUniqueId& id) {
    return InitRank(library, group,
                    {.function = "ncclCommInitRank",
                     .out = out,
                     .ranks = ranks,
                     .rank = rank,
                     .ids = &id});
  }
  // Every split ends with this rank as `rank` of `ranks`.
  void AnswerSplits(uint64_t ranks, uint64_t rank) {
    channel.on_ask = [=](const FakeChannel::Written& question) {
      Answer answer;
      if (question.kind == Kind::kCommSplit)
        answer.value = ranks << 32 | rank;
      return answer;
    };
  }
};

}  // namespace vrank::nccl

#endif  // VRANK_TESTS_VIRTUAL_NCCL_CREATION_FIXTURE_H_
