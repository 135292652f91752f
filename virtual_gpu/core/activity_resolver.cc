#include "virtual_gpu/core/activity_resolver.h"

#include <utility>

namespace vrank::gpu {

using protocol::ActivityEntryKind;

void ActivityResolver::Take(std::vector<ActivityNote>* notes,
                            std::span<const protocol::ActivityEntry> entries) {
  for (ActivityNote& note : *notes)
    notes_.push_back(std::move(note));
  notes->clear();
  for (const protocol::ActivityEntry& entry : entries)
    TakeEntry(entry);
  ReportPassed(passed_ + 1);
}

void ActivityResolver::TakeEntry(const protocol::ActivityEntry& entry) {
  const Span span{entry.begin_ns, entry.end_ns, entry.source};
  switch (entry.kind) {
    case ActivityEntryKind::kHost:
      ReportPassed(entry.record);
      passed_ = entry.record;
      host_ns_ = entry.end_ns;
      sources_.AddHost(entry.source, entry.end_ns - entry.begin_ns);
      return;
    case ActivityEntryKind::kWait:
      waits_[entry.record] = span;
      return;
    case ActivityEntryKind::kQueueFull:
      queue_waits_[entry.record] = span;
      return;
    case ActivityEntryKind::kWork: {
      const auto awaited = awaited_.find(entry.record);
      if (awaited == awaited_.end()) {
        ended_[entry.record] = span;
        return;
      }
      ReportWork(&awaited->second, span);
      awaited_.erase(awaited);
      return;
    }
  }
}

void ActivityResolver::ReportPassed(uint64_t before) {
  while (!notes_.empty() && notes_.front().mark.record < before) {
    Report(&notes_.front());
    notes_.pop_front();
  }
}

bool ActivityResolver::TakeSpan(Spans* spans, uint64_t record, Span* span) {
  const auto found = spans->find(record);
  if (found == spans->end())
    return false;
  *span = found->second;
  spans->erase(found);
  return true;
}

void ActivityResolver::Report(ActivityNote* note) {
  const int64_t now = host_ns_ + note->mark.pending_ns;
  ActivityListener& listener = *note->listener;
  if (const auto* begin = std::get_if<CallBegin>(&note->what)) {
    starts_[begin->correlation] = now;
  } else if (auto* call = std::get_if<ActivityCall>(&note->what)) {
    const auto start = starts_.find(call->correlation);
    call->start_ns = now;
    if (start != starts_.end()) {
      call->start_ns = start->second;
      starts_.erase(start);
    }
    call->end_ns = now;
    listener.OnCall(*call);
  } else if (auto* work = std::get_if<ActivityWork>(&note->what)) {
    ReportLaunch(note, work->correlation);
  } else if (auto* record = std::get_if<ActivityEventRecord>(&note->what)) {
    ReportLaunch(note, record->correlation);
  } else if (auto* sync = std::get_if<ActivitySync>(&note->what)) {
    Span first{now, now}, last{now, now};
    if (note->record != 0 && TakeSpan(&waits_, note->record, &first))
      last = first;
    for (uint64_t i = note->record + 1; note->record != 0 && i <= note->last_record;
         ++i)
      TakeSpan(&waits_, i, &last);
    sync->start_ns = first.begin_ns;
    sync->end_ns = last.end_ns;
    listener.OnSync(*sync);
  } else if (auto* stream = std::get_if<ActivityStream>(&note->what)) {
    listener.OnStream(*stream);
  } else if (auto* memory = std::get_if<ActivityMemory>(&note->what)) {
    memory->time_ns = now;
    listener.OnMemory(*memory);
  } else if (auto* range = std::get_if<ActivityRange>(&note->what)) {
    range->time_ns = now;
    listener.OnRange(*range);
  } else if (auto* id = std::get_if<ActivityExternalId>(&note->what)) {
    listener.OnExternalId(*id);
  }
}

void ActivityResolver::ReportLaunch(ActivityNote* note, uint32_t correlation) {
  Span span;
  if (TakeSpan(&queue_waits_, note->record, &span))
    note->listener->OnQueueFull({correlation, span.begin_ns, span.end_ns});
  if (TakeSpan(&ended_, note->record, &span))
    ReportWork(note, span);
  else
    awaited_.emplace(note->record, std::move(*note));
}

void ActivityResolver::ReportWork(ActivityNote* note, const Span& span) {
  if (auto* work = std::get_if<ActivityWork>(&note->what)) {
    work->start_ns = span.begin_ns;
    work->end_ns = span.end_ns;
    sources_.AddWork(*work, span.source);
    note->listener->OnWork(*work);
  } else if (auto* record = std::get_if<ActivityEventRecord>(&note->what)) {
    record->device_ns = span.end_ns;
    note->listener->OnEventRecord(*record);
  }
}

}  // namespace vrank::gpu
