// See spmd_job.h.

#include "bench/replay/spmd_job.h"

#include <fmt/format.h>

namespace vrank::graph {
namespace {

// Communicator numbers of every rank.
constexpr uint32_t kTensor = 1, kPipeline = 2, kData = 3;
// Streams and events.
constexpr uint32_t kCompute = 1, kGradients = 2;
constexpr uint32_t kReady = 1, kReduced = 2;

Op Make(OpKind kind, uint32_t lane, int64_t value, bool launch) {
  Op op;
  op.kind = kind;
  op.lane = lane;
  op.host_ns = 3000;
  op.value = value;
  op.launch = launch;
  return op;
}

}  // namespace

SpmdJob::SpmdJob(const SpmdShape& shape) : shape_(shape) {
  for (uint32_t stage = 0; stage < shape.pipeline; ++stage)
    WriteStage(stage);
}

void SpmdJob::WriteStage(uint32_t stage) {
  programs_.push_back(std::make_unique<Program>(true));
  Program& program = *programs_.back();
  const auto create = [&](uint32_t number) {
    Op op = Make(OpKind::kCreateCommunicator, 0, 0, false);
    Creation call;
    call.unique_id[0] = static_cast<uint8_t>(number);
    op.a = number;
    op.b = program.AddCreation(call);
    program.Append(op);
  };
  const auto token = [&](OpKind kind, uint32_t lane, uint32_t number) {
    Op op = Make(kind, lane, 0, false);
    op.a = number;
    program.Append(op);
  };
  const auto collective = [&](uint32_t lane, uint32_t number, CollectiveKind kind,
                              uint64_t count) {
    Op op = Make(OpKind::kCollective, lane, 0, true);
    op.a = number;
    op.b = program.AddCollective(
        {kind, ElementType::kBfloat16, Reduction::kSum, 0, count});
    program.Append(op);
  };
  const auto transfer = [&](bool send, uint32_t peer) {
    Op op = Make(OpKind::kTransfers, kCompute, 0, true);
    op.a = kPipeline;
    op.b = program.AddTransfers({{8u << 20, peer, send}});
    program.Append(op);
  };
  const auto pass = [&](bool forward) {
    const uint32_t between =
        shape_.kernels_per_pass / (shape_.all_reduces_per_pass + 1);
    if (forward ? stage > 0 : stage + 1 < shape_.pipeline)
      transfer(false, forward ? stage - 1 : stage + 1);
    for (uint32_t k = 0; k < shape_.kernels_per_pass; ++k) {
      program.Append(Make(OpKind::kWork, kCompute, 20'000 + 100 * k, true));
      if (k % (between + 1) == between)
        collective(kCompute, kTensor, CollectiveKind::kAllReduce, 1 << 22);
    }
    if (forward ? stage + 1 < shape_.pipeline : stage > 0)
      transfer(true, forward ? stage + 1 : stage - 1);
  };
  create(kTensor);
  create(kPipeline);
  create(kData);
  for (uint32_t iteration = 0; iteration < shape_.iterations; ++iteration) {
    for (uint32_t m = 0; m < shape_.micro_batches; ++m)
      pass(true);
    for (uint32_t m = 0; m < shape_.micro_batches; ++m)
      pass(false);
    token(OpKind::kRecordToken, kCompute, kReady);
    token(OpKind::kWaitToken, kGradients, kReady);
    collective(kGradients, kData, CollectiveKind::kReduceScatter, 1 << 26);
    token(OpKind::kRecordToken, kGradients, kReduced);
    token(OpKind::kWaitToken, kCompute, kReduced);
    token(OpKind::kHostWaitToken, 0, kReduced);
  }
  program.Close();
}

ReplayJob SpmdJob::Ranks() const {
  ReplayJob job;
  const uint32_t per_stage = shape_.tensor * shape_.data;
  for (uint32_t rank = 0; rank < shape_.ranks(); ++rank) {
    RankOptions options;
    options.follower = rank % per_stage != 0;
    options.leader =
        options.follower ? static_cast<int32_t>(rank / per_stage * per_stage) : -1;
    job.ranks.push_back(
        {static_cast<int32_t>(rank), programs_[rank / per_stage].get(), options});
  }
  return job;
}

void SpmdJob::AddRanks(Engine& engine) {
  for (const ReplayJob::Rank& rank : Ranks().ranks)
    engine.AddRank(rank.world_rank, rank.program, rank.options);
}

uint64_t SpmdJob::ops() const {
  uint64_t sum = 0;
  for (const auto& program : programs_)
    sum += program->size() * shape_.tensor * shape_.data;
  return sum;
}

absl::StatusOr<Membership::InitAnswer> SpmdJob::Init(const InitCaller& caller,
                                                     const Creation& call) {
  const int32_t rank = caller.rank;
  const uint32_t t = static_cast<uint32_t>(rank) % shape_.tensor;
  const uint32_t d = static_cast<uint32_t>(rank) / shape_.tensor % shape_.data;
  const uint32_t stage = static_cast<uint32_t>(rank) / shape_.tensor / shape_.data;
  const auto at = [&](uint32_t s, uint32_t dd, uint32_t tt) {
    return static_cast<int32_t>((s * shape_.data + dd) * shape_.tensor + tt);
  };
  InitAnswer answer;
  std::vector<int32_t> members;
  switch (call.unique_id[0]) {
    case kTensor:
      answer.identity = fmt::format("tensor {}.{}", stage, d);
      answer.index = t;
      for (uint32_t i = 0; i < shape_.tensor; ++i)
        members.push_back(at(stage, d, i));
      break;
    case kPipeline:
      answer.identity = fmt::format("pipeline {}.{}", d, t);
      answer.index = stage;
      for (uint32_t i = 0; i < shape_.pipeline; ++i)
        members.push_back(at(i, d, t));
      break;
    default:
      answer.identity = fmt::format("data {}.{}", stage, t);
      answer.index = d;
      for (uint32_t i = 0; i < shape_.data; ++i)
        members.push_back(at(stage, i, t));
      break;
  }
  answer.members = std::make_shared<const std::vector<int32_t>>(std::move(members));
  return answer;
}

absl::StatusOr<std::vector<Membership::SplitGroup>> SpmdJob::Split(
    std::string_view, uint32_t, std::span<const SplitMember>) {
  return absl::UnimplementedError("the benchmark job does not split communicators");
}

}  // namespace vrank::graph
