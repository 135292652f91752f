#include "emulator/world/result_collector.h"

#include <algorithm>

#include <fmt/format.h>

namespace vrank::emulator {

absl::StatusOr<Pattern> MakeIterationPattern(const std::string& pattern) {
  auto compiled = Pattern::Compile(pattern, Pattern::Case::kIgnored);
  if (!compiled.ok())
    return absl::InvalidArgumentError(
        fmt::format("--iteration-range '{}': {}; give a regular expression", pattern,
                    std::string(compiled.status().message())));
  return compiled;
}

void ResultCollector::AddRank(int32_t rank, const graph::Program* program, bool real) {
  ranks_[rank].program = program;
  ranks_[rank].real = real;
}

bool ResultCollector::IsIteration(const graph::Program* program, uint32_t name) {
  std::vector<int8_t>& matches = matches_[program];
  if (name >= matches.size())
    matches.resize(name + 1, -1);
  if (matches[name] < 0) {
    const std::string& text = program->details().names[name];
    matches[name] = options_.iteration_pattern.Matches(text) ? 1 : 0;
  }
  return matches[name] == 1;
}

void ResultCollector::OnRange(int32_t rank, uint32_t name, bool begin,
                              const graph::Stamp& host) {
  Rank& state = ranks_[rank];
  if (begin) {
    const bool nested = std::any_of(state.open.begin(), state.open.end(),
                                    [](const OpenRange& o) { return o.is_iteration; });
    state.open.push_back(OpenRange{
        name, !nested && state.program != nullptr && IsIteration(state.program, name),
        host});
    return;
  }
  // The innermost open range of that name; a nameless end closes the innermost one.
  const auto range =
      std::find_if(state.open.rbegin(), state.open.rend(),
                   [name](const OpenRange& o) { return name == 0 || o.name == name; });
  if (range == state.open.rend())
    return;
  if (range->is_iteration)
    state.iterations.push_back(Iteration{range->begin, host});
  state.open.erase(std::next(range).base());
}

uint32_t ResultCollector::CommunicatorIndex(const std::string& identity) {
  const auto [entry, added] = communicator_index_.try_emplace(
      identity, static_cast<uint32_t>(communicators_.size()));
  if (added)
    communicators_.push_back(identity);
  return entry->second;
}

void ResultCollector::OnCollectiveEnd(const std::string& communicator,
                                      uint32_t sequence, uint32_t member, int32_t rank,
                                      const graph::CollectiveCall& call,
                                      const graph::Stamp& arrival,
                                      const graph::Stamp& end) {
  if (Rank& state = ranks_[rank]; state.real) {
    CommunicationTotal& total = state.collectives[static_cast<size_t>(call.operation)];
    ++total.calls;
    total.bytes += call.count * graph::ElementBytes(call.type);
    total.time_ns += end.ns - arrival.ns;
  }
  if (!options_.collectives && !options_.member_ends)
    return;
  const uint32_t index = CommunicatorIndex(communicator);
  if (options_.collectives) {
    CollectiveRow& row = rows_[{index, sequence}];
    row.call = call;
    row.end_ns = std::max(row.end_ns, end.ns);
  }
  if (options_.member_ends)
    member_ends_.push_back(
        MemberEnd{index, member, protocol::kNone, 0, sequence, end.ns});
}

void ResultCollector::OnTransferEnd(const std::string& communicator, uint32_t from,
                                    uint32_t to, uint32_t sequence, uint64_t bytes,
                                    bool is_send, int32_t rank,
                                    const graph::Stamp& arrival,
                                    const graph::Stamp& end) {
  if (Rank& state = ranks_[rank]; state.real) {
    CommunicationTotal& total = is_send ? state.sends : state.receives;
    ++total.calls;
    total.bytes += bytes;
    total.time_ns += end.ns - arrival.ns;
  }
  if (options_.member_ends)
    member_ends_.push_back(MemberEnd{CommunicatorIndex(communicator),
                                     is_send ? from : to, is_send ? to : from,
                                     is_send ? 1u : 0u, sequence, end.ns});
}

const std::vector<Iteration>& ResultCollector::iterations(int32_t rank) const {
  static const std::vector<Iteration> kNone;
  const auto state = ranks_.find(rank);
  return state == ranks_.end() ? kNone : state->second.iterations;
}

std::map<std::string, CommunicationTotal> ResultCollector::communication(
    int32_t rank) const {
  std::map<std::string, CommunicationTotal> result;
  const auto state = ranks_.find(rank);
  if (state == ranks_.end())
    return result;
  for (size_t i = 0; i < std::size(state->second.collectives); ++i)
    if (state->second.collectives[i].calls > 0)
      result[graph::Name(static_cast<graph::CollectiveKind>(i))] =
          state->second.collectives[i];
  if (state->second.sends.calls > 0)
    result["send"] = state->second.sends;
  if (state->second.receives.calls > 0)
    result["receive"] = state->second.receives;
  return result;
}

std::map<std::pair<std::string, uint32_t>, CollectiveRow> ResultCollector::Collectives()
    const {
  std::map<std::pair<std::string, uint32_t>, CollectiveRow> result;
  for (const auto& [key, row] : rows_)
    result[{communicators_[key.first], key.second}] = row;
  return result;
}

size_t ResultCollector::CompletedIterations() const {
  size_t completed = 0;
  bool any = false;
  for (const auto& [rank, state] : ranks_) {
    if (!state.real)
      continue;
    completed =
        any ? std::min(completed, state.iterations.size()) : state.iterations.size();
    any = true;
  }
  return completed;
}

}  // namespace vrank::emulator
