// Records of a .vtrace file as rows, one function per kind. What a record says is
// checked before it becomes a row: lengths before a field is read, values that index
// something or that an enumeration lacks.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_TRACE_RECORD_ROWS_H_
#define VRANK_GRAPH_TRACE_RECORD_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/guest/trace_format.h"
#include "graph/trace/raw_rows.h"

namespace vrank::graph {

// What is wrong with a record; empty: nothing.
using Fault = std::string;

inline bool Flag(const trace::Record& record, uint16_t flag) {
  return (record.flags & flag) != 0;
}

// cuda_records.cc. `tail`: what follows the record.
Fault Add(const trace::Name& from, std::string_view tail, RawRows* rows);
Fault Add(const trace::Sync& from, RawRows* rows);
Fault Add(const trace::EventRecord& from, RawRows* rows);
Fault Add(const trace::Stream& from, RawRows* rows);
Fault Add(const trace::Context& from, RawRows* rows);
Fault Add(const trace::Memory& from, RawRows* rows);
Fault Add(const trace::Pool& from, RawRows* rows);
Fault Add(const trace::Reserve& from, RawRows* rows);
Fault Add(const trace::Range& from, RawRows* rows);
Fault Add(const trace::Overhead& from, RawRows* rows);
Fault Add(const trace::ExternalId& from, RawRows* rows);
Fault Add(const trace::GraphNode& from, std::string_view tail, RawRows* rows);
Fault Add(const trace::GraphChange& from, RawRows* rows);
Fault Add(const trace::GraphLaunch& from, RawRows* rows);
Fault Add(const trace::HostTime& from, RawRows* rows);
Fault Add(const trace::Dropped& from, RawRows* rows);
Fault Add(const trace::Session& from, std::string_view tail, RawRows* rows);

// nccl_records.cc.
Fault Add(const trace::Collective& from, RawRows* rows);
Fault Add(const trace::Transfers& from, std::string_view tail, RawRows* rows);
Fault Add(const trace::Creation& from, RawRows* rows);
Fault Add(const trace::Release& from, RawRows* rows);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_RECORD_ROWS_H_
