// Names and sizes of the graph's enumerators, for reports, files and error messages.

#include "graph/schema/op.h"

#include "base/guest/element_bytes.h"

namespace vrank::graph {

bool HasRoot(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kGather || kind == CollectiveKind::kScatter;
}

bool Reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kReduceScatter;
}

uint64_t ElementBytes(ElementType type) {
  return protocol::ElementBytes(type);
}

const char* Name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kReduce:
      return "reduce";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kGather:
      return "gather";
    case CollectiveKind::kScatter:
      return "scatter";
  }
  return "unknown";
}

const char* Name(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
      return "int8";
    case ElementType::kUint8:
      return "uint8";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kUint32:
      return "uint32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kUint64:
      return "uint64";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kBfloat16:
      return "bfloat16";
    case ElementType::kFloat8E4M3:
      return "float8_e4m3";
    case ElementType::kFloat8E5M2:
      return "float8_e5m2";
    case ElementType::kTfloat32:
      return "tfloat32";
  }
  return "unknown";
}

const char* Name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kProd:
      return "prod";
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
    case Reduction::kAvg:
      return "avg";
    case Reduction::kPreMulSum:
      return "pre_mul_sum";
  }
  return "unknown";
}

const char* Name(OpKind kind) {
  switch (kind) {
    case OpKind::kHost:
      return "host";
    case OpKind::kWork:
      return "work";
    case OpKind::kRecordToken:
      return "record_token";
    case OpKind::kWaitToken:
      return "wait_token";
    case OpKind::kReleaseLane:
      return "release_lane";
    case OpKind::kHostWaitToken:
      return "host_wait_token";
    case OpKind::kHostWaitLane:
      return "host_wait_lane";
    case OpKind::kQueryToken:
      return "query_token";
    case OpKind::kQueryLane:
      return "query_lane";
    case OpKind::kPollToken:
      return "poll_token";
    case OpKind::kPollLane:
      return "poll_lane";
    case OpKind::kCreateCommunicator:
      return "create_communicator";
    case OpKind::kReleaseCommunicator:
      return "release_communicator";
    case OpKind::kCollective:
      return "collective";
    case OpKind::kTransfers:
      return "transfers";
    case OpKind::kMemory:
      return "memory";
    case OpKind::kRangeBegin:
      return "range_begin";
    case OpKind::kRangeEnd:
      return "range_end";
    case OpKind::kAskClock:
      return "ask_clock";
    case OpKind::kHostFunc:
      return "host_func";
  }
  return "unknown";
}

const char* Name(Source source) {
  switch (source) {
    case Source::kModelled:
      return "modelled";
    case Source::kAssumed:
      return "assumed";
    case Source::kRecorded:
      return "recorded";
    case Source::kMeasured:
      return "measured";
  }
  return "unknown";
}

}  // namespace vrank::graph
