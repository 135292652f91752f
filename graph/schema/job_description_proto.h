// A job description as fields of a message, and back.
//
// The two messages that contain one (SessionProto of slices, GraphMeta of graphs) have
// the same names of fields and numbers of their own, which files of both kinds rely on.
//
// Thread rule: functions of their arguments. No errors: bounds are the reader's.

#ifndef VRANK_GRAPH_SCHEMA_JOB_DESCRIPTION_PROTO_H_
#define VRANK_GRAPH_SCHEMA_JOB_DESCRIPTION_PROTO_H_

#include <string>

#include "graph/schema/job_description.h"

namespace vrank::graph {

template <class Proto>
void WriteJob(const JobDescription& job, Proto* proto) {
  proto->set_world_size(job.world_size);
  proto->set_layout(job.layout);
  proto->set_layout_inferred(job.layout_inferred);
  for (const std::string& hint : job.group_hints)
    proto->add_group_hints(hint);
  proto->set_gpu(job.gpu);
  proto->set_cluster(job.cluster);
  proto->set_virtual_gpu(job.virtual_gpu);
  proto->set_command(job.command);
  proto->set_program_fingerprint(job.program_fingerprint);
  proto->set_cost_options(job.cost_options);
  for (const auto& [name, version] : job.software) {
    auto* row = proto->add_software();
    row->set_name(name);
    row->set_version(version);
  }
  proto->set_launch_latency_ns(job.launch_latency_ns);
  proto->set_launch_queue_depth(job.launch_queue_depth);
}

template <class Proto>
JobDescription ReadJob(const Proto& proto) {
  JobDescription job;
  job.world_size = proto.world_size();
  job.layout = proto.layout();
  job.layout_inferred = proto.layout_inferred();
  job.group_hints.assign(proto.group_hints().begin(), proto.group_hints().end());
  job.gpu = proto.gpu();
  job.cluster = proto.cluster();
  job.virtual_gpu = proto.virtual_gpu();
  job.command = proto.command();
  job.program_fingerprint = proto.program_fingerprint();
  job.cost_options = proto.cost_options();
  for (const auto& row : proto.software())
    job.software[row.name()] = row.version();
  job.launch_latency_ns = proto.launch_latency_ns();
  job.launch_queue_depth = proto.launch_queue_depth();
  return job;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCHEMA_JOB_DESCRIPTION_PROTO_H_
