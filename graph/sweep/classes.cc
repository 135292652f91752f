#include "graph/sweep/classes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "graph/program/program_content.h"
#include "graph/sweep/shape.h"

namespace vrank::graph {
namespace {

SweepCodeOptions CodeOptions(const ReplayJob& job, const ReplayJob::Rank& rank,
                             const SweepOptions& options, const LedgerSet& ledgers) {
  SweepCodeOptions code;
  code.engine = job.options;
  code.work_numerator = rank.options.work_numerator;
  code.work_denominator = rank.options.work_denominator;
  code.jitter = rank.options.jitter;
  code.ledgers = ledgers;
  code.store_ends = options.store_ends;
  code.observe = options.observe;
  return code;
}

// Classes that do not fill a vector by themselves run with others that are like them.
struct Likeness {
  uint64_t (*digest)(const SweepCode& code);
  bool (*is_like)(const SweepCode& a, const SweepCode& b);
  bool one_shape;
};
constexpr Likeness kShape{ShapeDigest, HaveOneShape, true};
constexpr Likeness kSkeleton{SkeletonDigest, HaveOneSkeleton, false};

std::vector<SweepClass> MergedBy(const Likeness& likeness, const ReplayJob& job,
                                 std::vector<SweepClass> classes, uint32_t width) {
  const auto jitters = [&](const SweepClass& one) {
    return job.ranks[one.parts[0].rank].options.jitter.on();
  };
  std::vector<SweepClass> merged;
  std::multimap<uint64_t, size_t> by_digest;  // -> merged
  for (SweepClass& one : classes) {
    if (one.parts.size() >= width) {
      merged.push_back(std::move(one));
      continue;
    }
    const uint64_t digest = likeness.digest(*one.parts[0].code);
    const auto [begin, end] = by_digest.equal_range(digest);
    const auto same = std::find_if(begin, end, [&](const auto& known) {
      const SweepClass& other = merged[known.second];
      return jitters(other) == jitters(one) &&
             likeness.is_like(*other.parts[0].code, *one.parts[0].code);
    });
    if (same == end) {
      by_digest.emplace(digest, merged.size());
      merged.push_back(std::move(one));
    } else {
      SweepClass& into = merged[same->second];
      into.parts.insert(into.parts.end(), one.parts.begin(), one.parts.end());
      into.one_shape = likeness.one_shape;
    }
  }
  for (SweepClass& one : merged)
    std::sort(one.parts.begin(), one.parts.end(),
              [](const SweepPart& a, const SweepPart& b) { return a.rank < b.rank; });
  return merged;
}

}  // namespace

absl::StatusOr<std::vector<SweepClass>> SweepClasses(const ReplayJob& job,
                                                     const SweepOptions& options,
                                                     const LedgerSet& ledgers,
                                                     VectorUnit unit,
                                                     std::deque<SweepCode>* codes) {
  using Key = std::tuple<uint32_t, int64_t, int64_t, uint32_t, uint64_t>;
  ProgramNumbering number_of;
  std::map<Key, size_t> class_of;
  std::vector<SweepClass> classes;
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const ReplayJob::Rank& r = job.ranks[rank];
    const Key key{number_of(r.program), r.options.work_numerator,
                  r.options.work_denominator, r.options.jitter.parts_per_million,
                  r.options.jitter.seed};
    const auto [at, added] = class_of.try_emplace(key, classes.size());
    if (added) {
      absl::StatusOr<SweepCode> code =
          CompileSweep(*r.program, CodeOptions(job, r, options, ledgers));
      if (!code.ok())
        return code.status();
      codes->push_back(*std::move(code));
      classes.emplace_back();
    }
    classes[at->second].parts.push_back({rank, &(*codes)[at->second]});
  }
  const uint32_t width = VectorWidth(unit);
  classes = MergedBy(kShape, job, std::move(classes), width);
  // An end has the place of its op in the program, which all of a block have to share.
  if (options.store_ends)
    return classes;
  return MergedBy(kSkeleton, job, std::move(classes), width);
}

}  // namespace vrank::graph
