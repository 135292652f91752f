#include "tests/tools/fuzz_graphs.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "base/guest/crc32c.h"
#include "graph/file/graph_meta.h"
#include "tests/base/mutate.h"

namespace vrank {
namespace {

using graph::CollectiveKind;
using graph::Creation;
using graph::ExecutionGraph;
using graph::Op;
using graph::OpKind;
using graph::Program;

constexpr uint32_t kWorld = 1, kReplicas = 2, kPipeline = 3;
constexpr size_t kHeaderBytes = 64;

void AppendCreations(int32_t stage, int32_t replica, Program* program) {
  Creation world;
  world.ranks = 4;
  world.rank = static_cast<uint32_t>(2 * stage + replica);
  world.unique_id[0] = 1;
  const auto create = [&](uint32_t number, const Creation& creation) {
    program->Append(Op{.kind = OpKind::kCreateCommunicator,
                       .host_ns = 1000,
                       .a = number,
                       .b = program->AddCreation(creation)});
  };
  create(kWorld, world);
  Creation split;
  split.parent = kWorld;
  split.color = stage;
  split.key = static_cast<int32_t>(world.rank);
  create(kReplicas, split);
  split.color = replica;
  create(kPipeline, split);
}

void AppendStep(int32_t stage, Program* program) {
  const uint32_t name = program->AddName("step"), kernel = program->AddName("_Z1kv");
  const auto append = [program](Op op) { program->Append(op); };
  const auto collective = [&](CollectiveKind kind, uint32_t communicator,
                              uint32_t root) {
    append(Op{
        .kind = OpKind::kCollective,
        .launch = 1,
        .lane = 2,
        .host_ns = 500,
        .a = communicator,
        .b = program->AddCollective({.operation = kind, .root = root, .count = 1000})});
  };
  append(Op{.kind = OpKind::kRangeBegin, .a = name});
  append(Op{.kind = OpKind::kMemory, .value = 1 << 20});
  for (int i = 0; i < 5; ++i)
    append(Op{.kind = OpKind::kWork,
              .source = graph::Source::kAssumed,
              .work = graph::WorkClass::kKernel,
              .launch = 1,
              .lane = 1,
              .host_ns = 300,
              .value = 10'000 * (i + 1),
              .a = kernel});
  append(Op{.kind = OpKind::kRecordToken, .lane = 1, .host_ns = 100, .a = 7});
  append(Op{.kind = OpKind::kWaitToken, .lane = 2, .a = 7});
  collective(CollectiveKind::kAllReduce, kReplicas, 0);
  collective(CollectiveKind::kBroadcast, kWorld, 1);
  collective(CollectiveKind::kGather, kWorld, 2);
  append(Op{.kind = OpKind::kTransfers,
            .launch = 1,
            .lane = 3,
            .a = kPipeline,
            .b = program->AddTransfers(
                {{4096, static_cast<uint32_t>(1 - stage), stage == 0 ? 1u : 0u}})});
  append(Op{
      .kind = OpKind::kTransfers,
      .launch = 1,
      .lane = 3,
      .a = kPipeline,
      .b = program->AddTransfers({{64 << 20, static_cast<uint32_t>(1 - stage), 1},
                                  {64 << 20, static_cast<uint32_t>(1 - stage), 0}})});
  append(Op{.kind = OpKind::kRecordToken, .lane = 2, .a = 8});
  append(Op{.kind = OpKind::kQueryToken, .host_ns = 200, .a = 8});
  append(Op{.kind = OpKind::kPollToken, .host_ns = 200, .value = 5000, .a = 8});
  append(Op{.kind = OpKind::kHostFunc,
            .work = graph::WorkClass::kHostFunc,
            .launch = 1,
            .lane = 1,
            .value = 3000});
  append(Op{.kind = OpKind::kQueryLane, .lane = 3, .b = graph::kAnswerComplete});
  append(Op{.kind = OpKind::kHostWaitLane, .lane = 3, .host_ns = 50});
  append(Op{.kind = OpKind::kQueryToken, .from_helper = 1, .a = 8, .b = 1});
  append(Op{.kind = OpKind::kHostWaitToken, .a = 7});
  append(Op{.kind = OpKind::kAskClock});
  append(Op{.kind = OpKind::kMemory, .value = -(1 << 20)});
  append(Op{.kind = OpKind::kRangeEnd, .a = name});
  append(Op{.kind = OpKind::kReleaseLane, .lane = 3});
}

std::unique_ptr<Program> ProgramOf(int32_t stage, int32_t replica) {
  auto program = std::make_unique<Program>(true);
  AppendCreations(stage, replica, program.get());
  for (int step = 0; step < 2; ++step)
    AppendStep(stage, program.get());
  for (const uint32_t communicator : {kPipeline, kReplicas, kWorld})
    program->Append(Op{.kind = OpKind::kReleaseCommunicator, .a = communicator});
  program->Close();
  return program;
}

// What fields are likely to break on.
int64_t Value(std::mt19937* random) {
  constexpr int64_t kValues[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 7,
                                 8,
                                 -1,
                                 511,
                                 512,
                                 65535,
                                 (1 << 20) - 1,
                                 (1 << 24) - 1,
                                 int64_t{1} << 30,
                                 int64_t{1} << 31,
                                 int64_t{1} << 42,
                                 int64_t{1} << 50,
                                 (int64_t{1} << 60) - 1,
                                 std::numeric_limits<int64_t>::max()};
  if ((*random)() % 8 == 0)
    return static_cast<int64_t>((*random)());
  return kValues[(*random)() % std::size(kValues)];
}

void DamageOp(std::mt19937* random, Op* op) {
  const auto number = [&] { return static_cast<uint32_t>(Value(random)); };
  switch ((*random)() % 9) {
    case 0:
      op->kind = static_cast<OpKind>((*random)() % 21);
      break;
    case 1:
      op->lane = number();
      break;
    case 2:
      op->host_ns = Value(random);
      break;
    case 3:
      op->value = Value(random);
      break;
    case 4:
      op->a = number();
      break;
    case 5:
      op->b = number();
      break;
    case 6:
      op->launch = static_cast<uint8_t>((*random)() & 1);
      break;
    case 7:
      op->from_helper = static_cast<uint8_t>((*random)() & 1);
      break;
    default:
      op->source = static_cast<graph::Source>((*random)() % 5);
      op->host_source = static_cast<graph::Source>((*random)() % 4);
  }
}

void DamageProgram(std::mt19937* random, std::vector<Op>* ops) {
  if (ops->empty())
    return;
  const size_t at = (*random)() % ops->size(), other = (*random)() % ops->size();
  switch ((*random)() % 8) {
    case 0:
      std::swap((*ops)[at], (*ops)[other]);
      break;
    case 1:
      ops->erase(ops->begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 2:
      ops->insert(ops->begin() + static_cast<std::ptrdiff_t>(at), (*ops)[other]);
      break;
    case 3:
      (*ops)[at] = (*ops)[other];
      break;
    default:
      DamageOp(random, &(*ops)[at]);
  }
}

template <typename T>
void Put(std::string* bytes, size_t at, T value) {
  std::memcpy(bytes->data() + at, &value, sizeof value);
}

}  // namespace

GraphParts SoundGraph(bool own_programs) {
  ExecutionGraph graph;
  graph.world_size = 4;
  graph.layout = "dp=2,pp=2,order=dp-pp";
  graph.gpu = "h100-sxm5-80gb";
  graph.cluster = "hgx-h100-ib400";
  graph.virtual_gpu = true;
  graph.launch_latency_ns = 2000;
  graph.launch_queue_depth = 4;
  graph.classes = {{"pp 0", {0, 1}}, {"pp 1", {2, 3}}};
  graph.group_hints = {"world:0=dp", "world:1=pp"};
  if (own_programs)
    graph.ranks = {{0, 0, 0}, {0, 1, 1}, {1, 2, 2}, {1, 3, 3}};
  else
    graph.ranks = {{0, 0, 0}, {0, 0, 0}, {1, 1, 2}, {1, 1, 2}};
  for (int32_t stage = 0; stage < 2; ++stage)
    for (int32_t replica = 0; replica < (own_programs ? 2 : 1); ++replica)
      graph.programs.push_back(ProgramOf(stage, replica));
  GraphParts parts;
  parts.meta = graph::ToMeta(graph);
  for (const auto& program : graph.programs) {
    std::vector<Op>& ops = parts.programs.emplace_back();
    for (uint64_t i = 0; i < program->size(); ++i)
      ops.push_back(program->op(i));
  }
  return parts;
}

GraphParts Damaged(const GraphParts& sound, std::mt19937* random) {
  GraphParts parts = sound;
  if ((*random)() % 4 == 0) {
    graph::GraphMeta meta;
    if (meta.ParseFromString(
            Mutated(parts.meta.SerializeAsString(), 6, SmallValues(), random)))
      parts.meta = meta;
  }
  for (uint32_t changes = (*random)() % 4; changes > 0; --changes) {
    const size_t program = (*random)() % parts.programs.size();
    // The same change everywhere now and then: ranks still fit each other.
    const std::mt19937 before = *random;
    const bool everywhere = (*random)() % 2 == 0;
    for (size_t i = 0; i < parts.programs.size(); ++i) {
      if (i != program && !everywhere)
        continue;
      std::mt19937 same = before;
      same.discard(2);
      DamageProgram(&same, &parts.programs[i]);
    }
    random->discard(8);
  }
  return parts;
}

std::string Packed(const GraphParts& parts) {
  graph::GraphMeta meta = parts.meta;
  std::string bytes(kHeaderBytes, '\0');
  for (int i = 0; i < meta.programs_size(); ++i) {
    graph::GraphMeta::Program& row = *meta.mutable_programs(i);
    const size_t program = static_cast<size_t>(i);
    if (program >= parts.programs.size())
      continue;
    bytes.resize((bytes.size() + 63) / 64 * 64);
    row.set_offset(bytes.size());
    row.set_ops(parts.programs[program].size());
    for (const Op& op : parts.programs[program])
      bytes.append(reinterpret_cast<const char*>(&op), sizeof op);
    row.set_crc(Crc32c(bytes.data() + row.offset(), bytes.size() - row.offset()));
  }
  bytes.resize((bytes.size() + 63) / 64 * 64);
  const std::string raw = meta.SerializeAsString();
  std::string compressed(ZSTD_compressBound(raw.size()), '\0');
  compressed.resize(
      ZSTD_compress(compressed.data(), compressed.size(), raw.data(), raw.size(), 1));
  const size_t meta_offset = bytes.size();
  bytes += compressed;
  bytes.replace(0, 8, "VRGRAPH\n");
  Put<uint32_t>(&bytes, 8, 1);
  Put<uint64_t>(&bytes, 16, bytes.size());
  Put<uint64_t>(&bytes, 24, meta_offset);
  Put<uint64_t>(&bytes, 32, compressed.size());
  Put<uint64_t>(&bytes, 40, raw.size());
  Put<uint32_t>(&bytes, 48, Crc32c(compressed.data(), compressed.size()));
  Put<uint32_t>(&bytes, 12, 0);
  Put<uint32_t>(&bytes, 12, Crc32c(bytes.data(), kHeaderBytes));
  return bytes;
}

}  // namespace vrank
