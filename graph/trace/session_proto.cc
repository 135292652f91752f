// Field by field.

#include "graph/trace/session_proto.h"

#include "graph/trace/session.pb.h"

namespace vrank::graph {

std::string SerializeSession(const TraceSession& session) {
  SessionProto proto;
  proto.set_rank(session.rank);
  proto.set_world_size(session.world_size);
  for (const int32_t rank : session.real_ranks)
    proto.add_real_rank(rank);
  proto.set_layout(session.layout);
  proto.set_layout_inferred(session.layout_inferred);
  for (const std::string& hint : session.group_hints)
    proto.add_group_hint(hint);
  proto.set_gpu(session.gpu);
  proto.set_cluster(session.cluster);
  proto.set_virtual_gpu(session.virtual_gpu);
  proto.set_command(session.command);
  proto.set_program_fingerprint(session.program_fingerprint);
  proto.set_cost_options(session.cost_options);
  for (const auto& [name, version] : session.software) {
    SessionProto::Software* row = proto.add_software();
    row->set_name(name);
    row->set_version(version);
  }
  proto.set_launch_latency_ns(session.launch_latency_ns);
  proto.set_launch_queue_depth(session.launch_queue_depth);
  proto.set_context_bytes(session.context_bytes);
  proto.set_host_end_ns(session.host_end_ns);
  for (const auto& [kernel, work] : session.work_sources) {
    SessionProto::WorkSource* row = proto.add_work_source();
    row->set_kernel(kernel);
    row->set_source(static_cast<uint32_t>(work.source));
    row->set_unseen_ns(work.unseen_ns);
  }
  for (const auto& [name, count] : session.losses) {
    SessionProto::Loss* row = proto.add_loss();
    row->set_name(name);
    row->set_count(count);
  }
  for (const auto& [number, served] : session.communicators) {
    SessionProto::Communicator* row = proto.add_communicator();
    row->set_number(number);
    row->set_identity(served.identity);
    for (const int32_t member : served.members)
      row->add_member(member);
    row->set_assumed(served.assumed);
  }
  return proto.SerializeAsString();
}

bool ParseSession(std::string_view bytes, TraceSession* session) {
  SessionProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return false;
  *session = TraceSession();
  session->rank = proto.rank();
  session->world_size = proto.world_size();
  session->real_ranks.assign(proto.real_rank().begin(), proto.real_rank().end());
  session->layout = proto.layout();
  session->layout_inferred = proto.layout_inferred();
  session->group_hints.assign(proto.group_hint().begin(), proto.group_hint().end());
  session->gpu = proto.gpu();
  session->cluster = proto.cluster();
  session->virtual_gpu = proto.virtual_gpu();
  session->command = proto.command();
  session->program_fingerprint = proto.program_fingerprint();
  session->cost_options = proto.cost_options();
  for (const SessionProto::Software& row : proto.software())
    session->software[row.name()] = row.version();
  session->launch_latency_ns = proto.launch_latency_ns();
  session->launch_queue_depth = proto.launch_queue_depth();
  session->context_bytes = proto.context_bytes();
  session->host_end_ns = proto.host_end_ns();
  for (const SessionProto::WorkSource& row : proto.work_source()) {
    if (row.source() > static_cast<uint32_t>(Source::kMeasured))
      return false;
    session->work_sources[row.kernel()] = {static_cast<Source>(row.source()),
                                           row.unseen_ns()};
  }
  for (const SessionProto::Loss& row : proto.loss())
    session->losses[row.name()] = row.count();
  for (const SessionProto::Communicator& row : proto.communicator())
    session->communicators[row.number()] = {
        row.identity(), {row.member().begin(), row.member().end()}, row.assumed()};
  return true;
}

}  // namespace vrank::graph
