// See ledgers.h.

#include "graph/sweep/ledgers.h"

#include "graph/fold/view.h"

namespace vrank::graph {

uint8_t LedgerSet::PlaceOf(int64_t Stamp::*ledger) const {
  uint8_t place = 0;
  for (size_t i = 0; i < kAll.size(); ++i) {
    place += used[i];
    if (kAll[i] == ledger)
      return used[i] ? place : 0;
  }
  return 0;
}

int64_t Stamp::*LedgerSet::Of(Source source, bool host) {
  switch (source) {
    case Source::kModelled:
      return nullptr;
    case Source::kAssumed:
      return host ? &Stamp::assumed_host : &Stamp::assumed;
    case Source::kRecorded:
      return &Stamp::recorded;
    case Source::kMeasured:
      return &Stamp::measured;
  }
  return nullptr;
}

namespace {

class Finder {
 public:
  Finder(const ResolvedJob& job, const NetworkModel& network)
      : job_(job), network_(network) {}

  LedgerSet Run() {
    Add(Source::kAssumed, true);  // the launch latency
    for (const auto& [program, use] : job_.uses)
      AddProgram(*program);
    for (const CommunicatorInstance& instance : job_.instances)
      AddInstance(instance);
    for (uint32_t rank = 0; rank < job_.job.ranks.size(); ++rank)
      AddTransfers(rank);
    if (set_.count() > 1)
      set_.used = {true, true, true, true};
    return set_;
  }

 private:
  void Add(Source source, bool host) {
    for (size_t i = 0; i < LedgerSet::kAll.size(); ++i) {
      if (LedgerSet::kAll[i] == LedgerSet::Of(source, host))
        set_.used[i] = true;
    }
  }

  void AddProgram(const Program& program) {
    for (uint64_t i = 0; i < program.size(); ++i) {
      const Op& op = program.op(i);
      Add(op.host_source, true);
      if (op.kind == OpKind::kWork)
        Add(op.source, false);
      else if (op.kind == OpKind::kHostFunc || op.kind == OpKind::kPollToken ||
               op.kind == OpKind::kPollLane)
        Add(op.source, true);
    }
  }

  int32_t WorldRank(uint32_t place) const { return job_.job.ranks[place].world_rank; }

  void AddInstance(const CommunicatorInstance& instance) {
    std::vector<int32_t> ranks;
    for (const uint32_t member : instance.members)
      ranks.push_back(WorldRank(member));
    Add(network_.Creation(ranks).source, true);
    for (const CollectiveCall& call :
         job_.UseOf(instance.members[0]).communicators.at(instance.numbers[0]).calls)
      Add(network_.Collective(call, ranks).source, false);
  }

  void AddTransfers(uint32_t rank) {
    for (const auto& [number, binding] : job_.bindings[rank]) {
      const CommunicatorInstance& instance = job_.instances[binding.instance];
      for (const Transfer& transfer :
           job_.UseOf(rank).communicators.at(number).transfers) {
        const int32_t own = WorldRank(rank);
        const int32_t other =
            WorldRank(instance.members[PeerOf(job_, rank, number, transfer)]);
        Add((transfer.is_send != 0 ? network_.Transfer(transfer.bytes, own, other)
                                   : network_.Transfer(transfer.bytes, other, own))
                .source,
            false);
      }
    }
  }

  const ResolvedJob& job_;
  const NetworkModel& network_;
  LedgerSet set_;
};

}  // namespace

LedgerSet LedgersOf(const ResolvedJob& job, const NetworkModel& network) {
  return Finder(job, network).Run();
}

}  // namespace vrank::graph
