// One pass over the program, with bounds instead of times; see launches.h.

#include "graph/sweep/launches.h"

#include <algorithm>
#include <deque>
#include <map>

#include "graph/replay/step.h"

namespace vrank::graph {
namespace {

// What a lane or token is known to come after, by lane: the last op, and the least work
// of that lane up to there and from there on along the way.
struct Bound {
  int64_t op = -1;   // -1: of nothing on that lane
  int64_t work = 0;  // on the scale of the lane's own sum of work
};
using Bounds = std::vector<Bound>;

// Lanes from their first op to their release. A job has tens.
constexpr size_t kMostLives = 1024;

// A wait that nobody has felt yet. `slack`: least work of the lane up to the launch
// that is waited for, less the host's costs up to the wait.
struct Pending {
  LaunchWait wait;
  int64_t slack = 0;
};

class Finder {
 public:
  Finder(const Program& program, const SweepCodeOptions& options,
         const std::vector<bool>& looks)
      : program_(program),
        options_(options),
        looks_(looks),
        latency_(options.engine.launch_latency.nanoseconds()),
        depth_(std::clamp<uint32_t>(options.engine.launch_queue_depth, 1, 0xffff)) {}

  std::vector<LaunchWait> Run() {
    for (uint32_t i = 0; i < program_.size(); ++i) {
      const Op& op = program_.op(i);
      if (op.from_helper != 0)
        continue;
      host_ += op.host_ns;
      if (op.launch != 0 && launches_.size() >= depth_)
        Wait(i);
      Play(i, op);
      if (op.launch != 0)
        launches_.push_back(Launched(i, op));
    }
    LookAtHost();  // at the end
    std::sort(felt_.begin(), felt_.end(),
              [](const auto& a, const auto& b) { return a.waiting < b.waiting; });
    return std::move(felt_);
  }

 private:
  // A lane from its first op to its release: numbers are used again.
  struct Life {
    Bounds after;  // by life
    int64_t work = 0;
  };
  struct Launch {
    uint32_t op = 0, life = 0;
    int64_t work = 0;  // of its lane, so far
    bool bounded = true;
  };

  uint32_t LifeOf(uint32_t lane) {
    const auto [at, added] =
        life_of_.try_emplace(lane, static_cast<uint32_t>(lives_.size()));
    if (added)
      lives_.emplace_back();
    return at->second;
  }

  static Bound& At(Bounds& bounds, uint32_t life) {
    if (bounds.size() <= life)
      bounds.resize(life + 1);
    return bounds[life];
  }

  Launch Launched(uint32_t i, const Op& op) {
    const uint32_t life = LifeOf(op.lane);
    // A token may end after its lane, whose next op need not come after it.
    return {i, life, lives_[life].work, op.kind != OpKind::kRecordToken};
  }

  void Wait(uint32_t i) {
    const Launch& launch = launches_[launches_.size() - depth_];
    const Pending pending{{i, launch.op}, launch.work - host_};
    if (!launch.bounded || KnowsTooMany()) {
      felt_.push_back(pending.wait);
      return;
    }
    if (pending_.size() <= launch.life)
      pending_.resize(launch.life + 1);
    std::deque<Pending>& waits = pending_[launch.life];
    // Later on this one is always above those with less slack.
    while (!waits.empty() && waits.back().slack < pending.slack)
      waits.pop_back();
    waits.push_back(pending);
  }

  // Something begins on a lane, not before the host and the latency.
  void Begin(uint32_t lane) {
    const uint32_t own = LifeOf(lane);
    Bounds& after = lives_[own].after;
    for (uint32_t life = 0; life < pending_.size(); ++life) {
      std::deque<Pending>& waits = pending_[life];
      if (waits.empty())
        continue;
      const Bound bound = At(after, life);
      Feel(waits, bound, bound.work - host_ - latency_, false);
    }
  }

  // Waits that are not below `bound` are felt. The slack falls from front to back, the
  // op that is waited for grows.
  void Feel(std::deque<Pending>& waits, const Bound& bound, int64_t slack,
            bool even_ties) {
    while (!waits.empty() && waits.back().wait.launched > bound.op)
      Feel(waits, false);
    while (!waits.empty() &&
           (waits.front().slack > slack || (even_ties && waits.front().slack == slack)))
      Feel(waits, true);
  }
  void Feel(std::deque<Pending>& waits, bool front) {
    felt_.push_back(front ? waits.front().wait : waits.back().wait);
    front ? waits.pop_front() : waits.pop_back();
  }

  // Bounds between many lanes would be a square of them: then all waits count as felt,
  // which costs an op of the host each.
  bool KnowsTooMany() {
    if (lives_.size() <= kMostLives)
      return false;
    LookAtHost();
    pending_.clear();
    return true;
  }

  void LookAtHost() {
    for (std::deque<Pending>& waits : pending_) {
      for (const Pending& pending : waits)
        felt_.push_back(pending.wait);
      waits.clear();
    }
  }

  // The host waits for what comes after `bounds`: it is not seen where that is later.
  void HostWait(Bounds& bounds) {
    for (uint32_t life = 0; life < pending_.size(); ++life) {
      const Bound bound = At(bounds, life);
      Feel(pending_[life], bound, bound.work - host_, true);
      pending_[life].clear();
    }
  }

  // A lane goes on after a token.
  static void Join(Bounds& lane, const Bounds& token) {
    for (uint32_t life = 0; life < token.size(); ++life) {
      Bound& own = At(lane, life);
      if (token[life].op > own.op ||
          (token[life].op == own.op && token[life].work > own.work))
        own = token[life];
    }
  }

  void Pass(uint32_t i, uint32_t lane, int64_t least) {
    Begin(lane);
    const uint32_t own = LifeOf(lane);
    Life& life = lives_[own];
    for (Bound& bound : life.after)
      bound.work += least;
    life.work += least;
    At(life.after, own) = {i, life.work};
  }

  void Play(uint32_t i, const Op& op) {
    if (KnowsTooMany())
      return;
    switch (op.kind) {
      case OpKind::kWork:
        Pass(i, op.lane,
             options_.jitter
                 .SpanOf(Step::Scaled(op.value, options_.work_numerator,
                                      options_.work_denominator))
                 .lowest);
        break;
      case OpKind::kHostFunc:
        Pass(i, op.lane, op.value);
        break;
      case OpKind::kCollective:
      case OpKind::kTransfers:
        Pass(i, op.lane, 0);
        break;
      case OpKind::kRecordToken:
        Begin(op.lane);
        tokens_[op.a] = lives_[LifeOf(op.lane)].after;
        break;
      case OpKind::kWaitToken: {
        const uint32_t own = LifeOf(op.lane);
        Join(lives_[own].after, tokens_[op.a]);
        At(lives_[own].after, own) = {i, lives_[own].work};
        break;
      }
      case OpKind::kReleaseLane:
        life_of_.erase(op.lane);
        break;
      case OpKind::kHostWaitToken:
        HostWait(tokens_[op.a]);
        break;
      case OpKind::kHostWaitLane:
        HostWait(lives_[LifeOf(op.lane)].after);
        break;
      case OpKind::kQueryToken:
      case OpKind::kQueryLane:
      case OpKind::kPollToken:
      case OpKind::kPollLane:
      case OpKind::kCreateCommunicator:
      case OpKind::kReleaseCommunicator:
        LookAtHost();
        break;
      case OpKind::kRangeBegin:
      case OpKind::kRangeEnd:
        if (looks_[i])
          LookAtHost();
        break;
      case OpKind::kHost:
      case OpKind::kMemory:
      case OpKind::kAskClock:
        break;
    }
  }

  const Program& program_;
  const SweepCodeOptions& options_;
  const std::vector<bool>& looks_;
  const int64_t latency_;
  const uint32_t depth_;
  int64_t host_ = 0;  // costs so far
  std::vector<Life> lives_;
  std::map<uint32_t, uint32_t> life_of_;  // by lane number
  std::map<uint32_t, Bounds> tokens_;
  std::vector<Launch> launches_;
  std::vector<std::deque<Pending>> pending_;  // by life of the lane waited for
  std::vector<LaunchWait> felt_;
};

}  // namespace

std::vector<LaunchWait> FeltLaunchWaits(const Program& program,
                                        const SweepCodeOptions& options,
                                        const std::vector<bool>& looks) {
  return Finder(program, options, looks).Run();
}

}  // namespace vrank::graph
