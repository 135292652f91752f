// What-ifs about communication, as network models around another one.
//
// Thread rule: const methods, from any thread where the inner model's are.

#ifndef VRANK_GRAPH_WHAT_IF_EDITED_NETWORK_H_
#define VRANK_GRAPH_WHAT_IF_EDITED_NETWORK_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "graph/replay/network_model.h"

namespace vrank::graph {

// The longest that all that a what-if changes may take, in nanoseconds (36 years).
inline constexpr double kLongestNs = static_cast<double>(int64_t{1} << 60);

inline int64_t ScaleTime(int64_t ns, double factor) {
  return std::llround(std::min(2 * kLongestNs, static_cast<double>(ns) * factor));
}

// Passes everything on. `inner` outlives it.
class NetworkEdit : public NetworkModel {
 public:
  explicit NetworkEdit(const NetworkModel* inner) : inner_(inner) {}

  Cost Collective(const CollectiveCall& call,
                  std::span<const int32_t> members) const override {
    return inner_->Collective(call, members);
  }
  Cost Transfer(uint64_t bytes, int32_t from, int32_t to) const override {
    return inner_->Transfer(bytes, from, to);
  }
  uint64_t TransferCreditBytes(int32_t from, int32_t to) const override {
    return inner_->TransferCreditBytes(from, to);
  }
  Cost Creation(std::span<const int32_t> members) const override {
    return inner_->Creation(members);
  }

 protected:
  const NetworkModel* inner_;
};

// An operation takes `factor` times as long, from its last arrival on.
class ScaledNetwork : public NetworkEdit {
 public:
  // `operation`: Name(CollectiveKind), "send_recv"; empty: all.
  ScaledNetwork(const NetworkModel* inner, std::string operation, double factor)
      : NetworkEdit(inner), operation_(std::move(operation)), factor_(factor) {}

  Cost Collective(const CollectiveCall& call,
                  std::span<const int32_t> members) const override {
    const Cost cost = inner_->Collective(call, members);
    return Changes(Name(call.operation)) ? Scaled(cost) : cost;
  }
  Cost Transfer(uint64_t bytes, int32_t from, int32_t to) const override {
    const Cost cost = inner_->Transfer(bytes, from, to);
    return Changes("send_recv") ? Scaled(cost) : cost;
  }

 private:
  bool Changes(const char* operation) const {
    return operation_.empty() || operation_ == operation;
  }
  Cost Scaled(const Cost& cost) const {
    const auto scaled =
        Duration::Nanoseconds(ScaleTime(cost.duration.nanoseconds(), factor_));
    return {scaled, scaled == cost.duration ? cost.source : Source::kAssumed};
  }

  std::string operation_;
  double factor_;
};

// Collectives of one kind, size and shape of group, wherever in the job.
struct LikeCollective {
  CollectiveCall call;  // without its recorded time and root
  size_t members = 0;
  int32_t stride = 0;  // between the first two
  friend auto operator<=>(const LikeCollective&, const LikeCollective&) = default;

  static LikeCollective Of(const CollectiveCall& call,
                           std::span<const int32_t> members) {
    LikeCollective like{call, members.size(), 0};
    like.call.recorded_ns = 0;
    like.call.root = 0;
    if (members.size() > 1)
      like.stride = members[1] - members[0];
    return like;
  }
};

// A recorded collective takes the median of its like; others are as they are.
class MedianNetwork : public NetworkEdit {
 public:
  MedianNetwork(const NetworkModel* inner, std::map<LikeCollective, uint64_t> medians)
      : NetworkEdit(inner), medians_(std::move(medians)) {}

  Cost Collective(const CollectiveCall& call,
                  std::span<const int32_t> members) const override {
    const Cost cost = inner_->Collective(call, members);
    const auto median = medians_.find(LikeCollective::Of(call, members));
    if (call.recorded_ns == 0 || median == medians_.end())
      return cost;
    CollectiveCall like = call;
    like.recorded_ns = median->second;
    const Cost edited = inner_->Collective(like, members);
    return edited.duration == cost.duration ? cost
                                            : Cost{edited.duration, Source::kAssumed};
  }

 private:
  std::map<LikeCollective, uint64_t> medians_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_WHAT_IF_EDITED_NETWORK_H_
