// See session_proto.h.

#include "graph/trace/session_proto.h"

#include "graph/schema/job_description_proto.h"
#include "graph/trace/session.pb.h"

namespace vrank::graph {

std::string SerializeSession(const TraceSession& session) {
  SessionProto proto;
  proto.set_rank(session.rank);
  WriteJob(session, &proto);
  for (const int32_t rank : session.real_ranks)
    proto.add_real_rank(rank);
  proto.set_context_bytes(session.context_bytes);
  proto.set_host_end_ns(session.host_end_ns);
  proto.set_kernel_gap_ns(session.kernel_gap_ns);
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
  static_cast<JobDescription&>(*session) = ReadJob(proto);
  session->real_ranks.assign(proto.real_rank().begin(), proto.real_rank().end());
  session->context_bytes = proto.context_bytes();
  session->host_end_ns = proto.host_end_ns();
  session->kernel_gap_ns = proto.kernel_gap_ns();
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
