#include "graph/sweep/blocks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/sweep/classes.h"
#include "graph/sweep/shape.h"

namespace vrank::graph {

const CommunicatorBinding* BindingOf(const ResolvedJob& job, uint32_t rank,
                                     uint32_t number) {
  const auto at = job.bindings[rank].find(number);
  return at == job.bindings[rank].end() ? nullptr : &at->second;
}

namespace {

// Numbers in 64 bytes.
constexpr size_t kAligned = 8;

// The first address from `from` on that is aligned to 64 bytes.
int64_t* Aligned(int64_t* from) {
  const auto off = reinterpret_cast<uintptr_t>(from) / sizeof(int64_t) % kAligned;
  return from + (off == 0 ? 0 : kAligned - off);
}

class Maker {
 public:
  Maker(const ResolvedJob& job, const SweepOptions& options, SweepLayout* layout)
      : job_(job), options_(options), layout_(*layout) {}

  absl::Status Run() {
    absl::StatusOr<std::vector<SweepClass>> classes =
        SweepClasses(job_.job, options_, layout_.ledgers, layout_.unit, &layout_.codes);
    if (!classes.ok())
      return classes.status();
    layout_.seats.resize(job_.job.ranks.size());
    for (const SweepClass& one : *classes) {
      const std::span<const SweepPart> parts = one.parts;
      for (size_t i = 0; i < parts.size(); i += kBlockRanks) {
        AddBlock(parts.subspan(i, std::min<size_t>(kBlockRanks, parts.size() - i)),
                 one.one_shape);
        layout_.blocks.back()->home = static_cast<uint32_t>(i / kBlockRanks);
      }
    }
    if (layout_.bytes > options_.max_bytes) {
      return absl::ResourceExhaustedError(fmt::format(
          "playing {} ranks takes {:.1f} GiB of memory, {:.1f} GiB are "
          "allowed; play fewer ranks, or store no ends",
          job_.job.ranks.size(), static_cast<double>(layout_.bytes) / (1 << 30),
          static_cast<double>(options_.max_bytes) / (1 << 30)));
    }
    FindFourKeys();
    for (auto& block : layout_.blocks)
      Allocate(*block);
    DropSparedCodes();
    return absl::OkStatus();
  }

 private:
  void FindFourKeys() {
    uint64_t works = 0;
    for (const SweepCode& code : layout_.codes)
      works = std::max(works, code.works);
    for (uint64_t four = 0; four <= works / 4; ++four)
      layout_.four_keys.push_back(Jitter::FourKey(four));
  }

  // Codes that no block runs: their ranks have rows of costs.
  void DropSparedCodes() {
    std::set<const SweepCode*> run;
    for (const auto& block : layout_.blocks)
      run.insert(block->code);
    for (SweepCode& code : layout_.codes)
      if (!run.contains(&code))
        KeepResultsOnly(&code);
  }

  const SweepCode* AddAlignedCode(std::span<const SweepPart> parts) {
    std::vector<const SweepCode*> codes;
    for (const SweepPart& part : parts)
      codes.push_back(part.code);
    layout_.codes.push_back(AlignedCode(codes));
    return &layout_.codes.back();
  }

  void AddBlock(std::span<const SweepPart> parts, bool one_shape) {
    auto block = std::make_unique<SweepBlock>();
    const bool own =
        std::any_of(parts.begin(), parts.end(),
                    [&](const SweepPart& part) { return part.code != parts[0].code; });
    const SweepCode* const code =
        own && !one_shape ? AddAlignedCode(parts) : parts[0].code;
    block->code = code;
    const auto n = static_cast<uint32_t>(parts.size());
    std::vector<uint32_t> ranks;
    for (const SweepPart& part : parts)
      ranks.push_back(part.rank);
    // Members of the communicator that is used most come to lie in columns.
    const uint32_t size = MembersInOrder(*code, ranks);
    const uint32_t columns = n / size;
    block->lanes.column_count = columns;
    block->own_codes.resize(own ? n : 0);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t lane = i % size * columns + i / size;
      ranks[lane] = parts[i].rank;
      if (own)
        block->own_codes[lane] = parts[i].code;
    }
    for (uint32_t lane = 0; lane < n; ++lane)
      layout_.seats[ranks[lane]] = {static_cast<uint32_t>(layout_.blocks.size()), lane};
    // A few ranks are faster one by one than in a vector that they do not fill.
    const uint32_t whole = VectorWidth(layout_.unit);
    const bool vector = 2 * n > whole;
    block->lanes.ops = code->ops.data();
    block->lanes.ledgers = code->ledgers.data();
    block->lanes.places = code->places.data();
    block->lanes.meetings = code->meeting_slots.data();
    block->lanes.runs = code->runs.data();
    block->lanes.ranks = n;
    block->vector_width = vector ? whole : 1;
    block->lanes.width = vector ? (n + whole - 1) / whole * whole : n;
    const ReplayJob::Rank& first = job_.job.ranks[ranks[0]];
    block->kernel = FindSweepKernel(
        vector ? layout_.unit : VectorUnit::kScalar,
        {layout_.ledgers.count(), first.options.jitter.on(), options_.store_ends, own});
    block->own_works.resize(own && !one_shape ? block->lanes.width : 0);
    block->stride =
        static_cast<size_t>(1 + layout_.ledgers.count()) * block->lanes.width;
    block->ranks = std::move(ranks);
    layout_.bytes += sizeof(int64_t) * (code->slots * block->stride +
                                        code->observations.size() * block->stride +
                                        7 * size_t{block->lanes.width});
    if (options_.store_ends)
      layout_.bytes += sizeof(int64_t) * code->program->size() * block->lanes.width;
    if (own)
      layout_.bytes +=
          sizeof(uint32_t) * code->ops.size() * block->lanes.width *
          (SweepLanes::kOwnCosts + static_cast<size_t>(layout_.ledgers.count()));
    layout_.blocks.push_back(std::move(block));
  }

  // How many ranks that follow each other make up each instance of the communicator
  // with the most collectives; 1: it has others, too.
  uint32_t MembersInOrder(const SweepCode& code, const std::vector<uint32_t>& ranks) {
    std::map<uint32_t, uint32_t> uses;
    for (const SweepCode::Meeting& meeting : code.meetings)
      uses[code.communicators[meeting.communicator].number] +=
          meeting.kind == OpKind::kCollective ? meeting.times : 0;
    const auto most = std::max_element(
        uses.begin(), uses.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == uses.end() || most->second == 0)
      return 1;
    size_t size = 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const CommunicatorBinding* own = BindingOf(job_, ranks[i], most->first);
      if (own == nullptr)
        return 1;
      const CommunicatorInstance& instance = job_.instances[own->instance];
      if (i == 0)
        size = instance.members.size();
      if (instance.members.size() != size || ranks.size() % size != 0 ||
          own->index != i % size || instance.members[0] != ranks[i / size * size])
        return 1;
    }
    return static_cast<uint32_t>(size);
  }

  void Allocate(SweepBlock& block) {
    const SweepCode& code = *block.code;
    const size_t width = block.lanes.width;
    block.state.resize(code.slots * block.stride);
    for (StampLanes* numbers : {&block.bits, &block.busy, &block.waited, &block.met,
                                &block.divergences, &block.communicated})
      numbers->resize(width);
    block.rank_keys.resize(width);
    for (uint32_t lane = 0; lane < block.ranks.size(); ++lane) {
      const ReplayJob::Rank& rank = job_.job.ranks[block.ranks[lane]];
      block.rank_keys[lane] = rank.options.jitter.RankKey(rank.world_rank);
    }
    if (options_.store_ends)
      block.ends.resize(code.program->size() * width + kAligned);
    block.observations.resize(code.observations.size(), StampLanes(block.stride));
    block.bindings.resize(code.meetings.size());
    block.columns.resize(code.meetings.size());
    block.decided.resize(code.communicators.size());
    block.meeting.resize(code.communicators.size());
    block.pending = std::make_unique<std::atomic<int32_t>[]>(code.communicators.size());
    if (!block.own_codes.empty())
      block.own_costs = OwnCosts(code, block.own_codes, block.lanes.width,
                                 static_cast<uint32_t>(layout_.ledgers.count()));
    SweepLanes& lanes = block.lanes;
    lanes.own = block.own_costs.data();
    lanes.own_works = block.own_works.empty() ? nullptr : block.own_works.data();
    lanes.four_keys = layout_.four_keys.data();
    lanes.state = block.state.data();
    lanes.rank_keys = block.rank_keys.data();
    lanes.bits = block.bits.data();
    lanes.busy = block.busy.data();
    lanes.waited = block.waited.data();
    lanes.met = block.met.data();
    lanes.ends = options_.store_ends ? Aligned(block.ends.data()) : nullptr;
    lanes.columns = block.columns.data();
    lanes.decided = block.decided.data();
  }

  const ResolvedJob& job_;
  const SweepOptions& options_;
  SweepLayout& layout_;
};

}  // namespace

absl::Status MakeBlocks(const ResolvedJob& job, const SweepOptions& options,
                        SweepLayout* layout) {
  return Maker(job, options, layout).Run();
}

}  // namespace vrank::graph
