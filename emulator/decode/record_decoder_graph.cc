// The part of RecordDecoder that deals with launches of CUDA graphs.
//
// A launch becomes the ops of its nodes and edges, as if the program had issued them
// one by one, behind one op that takes a place in the launch queue: zero time on the
// launching lane. The guest sends a body once; later launches repeat its ops.

#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/decode/record_decoder.h"
#include "emulator/decode/record_reading.h"

namespace vrank::emulator {

using graph::Op;
using graph::OpKind;
using protocol::Record;
using protocol::RecordKind;

namespace {

// As the op that stands for a launch is called in reports.
constexpr char kLaunchName[] = "graph launch";

}  // namespace

absl::Status RecordDecoder::DecodeGraph(const Record& record) {
  switch (record.kind) {
    case RecordKind::kGraphLaunch:
      return GraphLaunch(record);
    case RecordKind::kGraphEnd:
      if (learning_ == nullptr)
        return Malformed("the end of a graph that did not begin");
      learning_ = nullptr;
      return absl::OkStatus();
    default: {
      ASSIGN_OR_RETURN(const auto* forget, RecordAs<protocol::Graph>(record));
      if (learning_ != nullptr)
        return Malformed(
            fmt::format("graph {} is forgotten within a launch", forget->graph));
      graphs_.erase(forget->graph);
      return absl::OkStatus();
    }
  }
}

absl::Status RecordDecoder::GraphLaunch(const Record& record) {
  ASSIGN_OR_RETURN(const auto* launch, RecordAs<protocol::GraphLaunch>(record));
  RETURN_IF_ERROR(CheckWorkLane(launch->lane));
  if (learning_ != nullptr)
    return Malformed(
        fmt::format("graph {} is launched within a launch", launch->graph));
  if (launch->nodes_follow != 0) {
    AppendGraphLaunch(launch->lane);
    if (launch->graph == 0)
      return absl::OkStatus();
    learning_ = &graphs_[launch->graph];
    *learning_ = {};
    learning_->lane = launch->lane;
    return absl::OkStatus();
  }
  const auto body = graphs_.find(launch->graph);
  if (body == graphs_.end())
    return Malformed(fmt::format("graph {} was never launched", launch->graph));
  AppendGraphLaunch(launch->lane);
  return Repeat(body->second, launch->lane);
}

void RecordDecoder::AppendGraphLaunch(uint32_t lane) {
  Append(Op{.kind = OpKind::kWork,
            .launch = 1,
            .lane = lane,
            .a = program_->AddName(kLaunchName)});
}

absl::Status RecordDecoder::Repeat(const GraphBody& body, uint32_t lane) {
  auto cost = body.costs.begin();
  for (Op op : body.ops) {
    if (op.lane == body.lane)
      op.lane = lane;
    switch (op.kind) {
      case OpKind::kWork: {
        const graph::WorkCost now = AtPresentClock(*cost++);
        op.value = now.ns;
        CountWork(op.a, now);
        break;
      }
      case OpKind::kCollective:
        RETURN_IF_ERROR(
            sink_->OnCollective(rank_, op.a, program_->details().collectives[op.b]));
        break;
      case OpKind::kTransfers: {
        ASSIGN_OR_RETURN(
            const graph::RootedTransfers rooted,
            sink_->OnTransfers(rank_, op.a, program_->details().transfer_groups[op.b]));
        op.value = graph::AddFollowersGroups(rooted, program_);
        break;
      }
      default:
        break;
    }
    Append(op);
  }
  return absl::OkStatus();
}

}  // namespace vrank::emulator
