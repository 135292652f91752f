// Merging of the two kinds of writes; see the header for the structures.

#include "virtual_gpu/core/content_map.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace vrank::gpu {
namespace {

bool SameKey(const protocol::PayloadKey& a, const protocol::PayloadKey& b) {
  return a.communicator == b.communicator && a.sequence == b.sequence &&
         a.peer == b.peer && a.is_transfer == b.is_transfer;
}

// Does `next`, which begins where `run` ends, go on with the same origin?
bool Continues(const ContentRun& run, const Origin& next) {
  const Origin& last = run.origin;
  if (last.kind != next.kind ||
      (last.writer != next.writer && (*last.writer != '\0' || *next.writer != '\0')))
    return false;
  switch (last.kind) {
    case Origin::Kind::kUnwritten:
    case Origin::Kind::kBytes:
      return true;
    case Origin::Kind::kFill:
      return last.pattern == next.pattern;
    case Origin::Kind::kComputed:
      return last.value == next.value && last.element_bytes == next.element_bytes &&
             (last.element_bytes == 0 ||
              last.offset + (run.end - run.begin) == next.offset);
    case Origin::Kind::kResult:
      return SameKey(last.key, next.key) &&
             last.offset + (run.end - run.begin) == next.offset;
    case Origin::Kind::kPending:
      return last.pending == next.pending &&
             last.offset + (run.end - run.begin) == next.offset;
  }
  return false;
}

void Append(std::vector<ContentRun>* runs, size_t first, const ContentRun& run) {
  if (runs->size() > first && Continues(runs->back(), run.origin))
    runs->back().end = run.end;
  else
    runs->push_back(run);
}

}  // namespace

void ContentMap::Carve(uint64_t begin, uint64_t end) {
  auto it = pieces_.upper_bound(begin);
  if (it != pieces_.begin()) {
    auto before = std::prev(it);
    if (before->second.end > begin)
      it = before;
  }
  while (it != pieces_.end() && it->first < end) {
    uint64_t piece_begin = it->first;
    Piece piece = it->second;
    it = pieces_.erase(it);
    if (piece_begin < begin) {
      Piece head = piece;
      head.end = begin;
      pieces_.emplace(piece_begin, head);
    }
    if (piece.end > end) {
      Piece tail = piece;
      tail.origin.offset += end - piece_begin;
      pieces_.emplace(end, tail);
      break;
    }
  }
}

void ContentMap::Write(uint64_t begin, uint64_t end, const Origin& origin,
                       uint64_t sequence) {
  any_own_ |= origin.own;
  auto same = pieces_.find(begin);
  if (same == pieces_.end() || same->second.end != end) {
    Carve(begin, end);
    pieces_.insert_or_assign(begin, Piece{end, sequence, origin});
    return;
  }
  same->second.sequence = sequence;
  same->second.origin = origin;
}

// A kernel got a pointer to it: it is no number by itself any more.
void ContentMap::Disown(uint64_t at) {
  auto piece = pieces_.upper_bound(at);
  if (piece != pieces_.begin() && (--piece)->second.end > at)
    piece->second.origin.own = false;
}

void ContentMap::WriteFrom(uint64_t begin, const char* writer, uint64_t sequence) {
  if (any_own_) [[unlikely]]
    Disown(begin);
  while (!steps_.empty() && steps_.back().begin >= begin)
    steps_.pop_back();
  steps_.push_back({begin, sequence, writer});
}

void ContentMap::WriteWithin(uint64_t begin, uint64_t end, const char* writer,
                             uint64_t sequence) {
  if (any_own_) [[unlikely]]
    Disown(begin);
  const auto from = [this](uint64_t at) {
    return std::lower_bound(
        steps_.begin(), steps_.end(), at,
        [](const Step& step, uint64_t wanted) { return step.begin < wanted; });
  };
  const auto first = from(begin), last = from(end);
  // Behind the range all is as before.
  const bool continues = last == steps_.end() || last->begin != end;
  Step behind{end, 0, ""};
  if (last != steps_.begin()) {
    behind = *std::prev(last);
    behind.begin = end;
  }
  auto place = steps_.erase(first, last);
  place = steps_.insert(place, {begin, sequence, writer});
  if (continues)
    steps_.insert(std::next(place), behind);
}

const Origin* ContentMap::LatestPiece(uint64_t begin, uint64_t end) const {
  auto piece = pieces_.upper_bound(begin);
  if (piece == pieces_.begin() || (--piece)->first != begin || piece->second.end < end)
    return nullptr;
  return &piece->second.origin;
}

void ContentMap::Read(uint64_t begin, uint64_t end, const BlindWrite& blind,
                      std::vector<ContentRun>* runs) const {
  const size_t first = runs->size();
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin() && std::prev(piece)->second.end > begin)
    --piece;
  auto step = std::upper_bound(
      steps_.begin(), steps_.end(), begin,
      [](uint64_t at, const Step& candidate) { return at < candidate.begin; });
  // `step` is the first one that begins after `at`; the one before it is in force.
  for (uint64_t at = begin; at < end;) {
    while (step != steps_.end() && step->begin <= at)
      ++step;
    while (piece != pieces_.end() && piece->second.end <= at)
      ++piece;
    ContentRun run{at, end, {}};
    uint64_t sequence = born_;
    if (piece != pieces_.end() && piece->first <= at) {
      run.end = std::min(run.end, piece->second.end);
      run.origin = piece->second.origin;
      run.origin.offset += at - piece->first;
      sequence = piece->second.sequence;
    } else if (piece != pieces_.end()) {
      run.end = std::min(run.end, piece->first);
    }
    if (step != steps_.end())
      run.end = std::min(run.end, step->begin);
    if (step != steps_.begin() && std::prev(step)->sequence > sequence &&
        !run.origin.own) {
      run.origin = Origin::Computed(std::prev(step)->writer);
      sequence = std::prev(step)->sequence;
    }
    if (blind.sequence > sequence)
      run.origin = Origin::Computed(blind.writer);
    Append(runs, first, run);
    at = run.end;
  }
}

}  // namespace vrank::gpu
