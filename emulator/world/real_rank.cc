#include "emulator/world/real_rank.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/launch/loaded_software.h"

namespace vrank::emulator {

RealRank::RealRank(int32_t rank, GuestLink* link, WorkPricer* pricer, DecoderSink* sink,
                   graph::Source host_time, bool retain)
    : rank_(rank),
      link_(link),
      kernel_gap_ns_(pricer->gpu() == nullptr ? 0 : pricer->gpu()->kernel_gap_ns()),
      program_(std::make_unique<graph::Program>(retain)),
      decoder_(std::make_unique<RecordDecoder>(rank, program_.get(), pricer, sink,
                                               host_time)) {}

absl::StatusOr<uint64_t> RealRank::Drain(uint64_t limit) {
  uint64_t count = 0;
  while (count < limit) {
    const protocol::Record* record = link_->Next();
    if (record == nullptr)
      break;
    RETURN_IF_ERROR(decoder_->Decode(*record));
    link_->Consume();
    ++count;
  }
  if (!software_known_ && decoder_->has_work()) {
    software_ = LoadedSoftware(static_cast<pid_t>(link_->owner_pid()));
    software_known_ = true;
  }
  if (!link_->status().ok())
    return absl::Status(
        link_->status().code(),
        fmt::format("rank {}: {}", rank_, std::string(link_->status().message())));
  return count;
}

void RealRank::Close() {
  decoder_->Finish();
  program_->Close();
}

void RealRank::AddQuestion(uint64_t op, const Question& question) {
  const auto pid = static_cast<pid_t>(link_->owner_pid());
  host_cpu_.Sample(op, pid, link_->gpu_work_ns());
  thread_cpu_.Look(op, pid, link_->program_ns());
  const graph::ClockGovernor* governor = decoder_->governor();
  questions_.push_back({op, question, governor != nullptr ? governor->run_ns() : 0});
}

void RealRank::AddGaps(uint32_t thread, std::span<const protocol::HostGap> gaps) {
  thread_cpu_.NoteIssuer(static_cast<pid_t>(thread));
  if (gaps.empty())
    return;
  for (const protocol::HostGap& gap : gaps)
    gaps_ns_ += std::max<int64_t>(gap.ns, 0);
  gap_time_.Add(program_->size(), gaps_ns_);
}

std::deque<RealRank::OpenQuestion>::iterator RealRank::FindQuestion(uint64_t op) {
  const auto found = std::lower_bound(
      questions_.begin(), questions_.end(), op,
      [](const OpenQuestion& open, uint64_t wanted) { return open.op < wanted; });
  return found != questions_.end() && found->op == op ? found : questions_.end();
}

void RealRank::PassQuestion(uint64_t op) {
  if (const auto found = FindQuestion(op); found != questions_.end())
    found->question.beside = true;
}

void RealRank::Answer(uint64_t op, const AnswerValues& values) {
  const auto found = FindQuestion(op);
  if (found == questions_.end())
    return;  // the guest knew the answer
  const auto [asked, question, run_ns] = *found;
  questions_.erase(found);
  if (decoder_->governor() != nullptr)
    decoder_->governor()->HostWas(values.host_ns, run_ns);
  if (question.is_fetch) {
    fetches_.push_back(Fetch{question, values});
    return;
  }
  if (question.is_memory) {
    memory_questions_.push_back({question, values});
    return;
  }
  AnswerValues told = values;
  told.beside = question.beside;
  if (question.value != 0)
    told.value = question.value;
  Keep(question.slot, told);
}

void RealRank::Keep(uint32_t slot, const AnswerValues& values) {
  answers_.push_back({slot, values});
  if (questions_.empty() && fetches_.empty() && memory_questions_.empty())
    TellAnswers();
}

void RealRank::AnswerMemory(uint64_t bytes) {
  MemoryQuestion asked = memory_questions_.front();
  memory_questions_.pop_front();
  asked.clock.value = bytes;
  asked.clock.beside = asked.question.beside;
  Keep(asked.question.slot, asked.clock);
}

void RealRank::TellAnswers() {
  if (answers_.empty())
    return;
  link_->Answer(answers_);
  answers_.clear();
}

void RealRank::LogIterations(graph::Engine* engine,
                             std::function<bool(const std::string&)> matches) {
  iteration_log_ = std::make_unique<IterationLog>(program_.get(), std::move(matches));
  timeline_.Add(iteration_log_.get());
  gpu_activity_ = std::make_unique<GpuActivity>(program_.get());
  timeline_.Add(gpu_activity_.get());
  engine->ObserveTimeline(rank_, &timeline_);
}

ActivityPublisher* RealRank::StartPublisher(graph::Engine* engine) {
  publisher_ = std::make_unique<ActivityPublisher>(link_, decoder_->records(),
                                                   program_->size(), kernel_gap_ns_);
  timeline_.Add(publisher_.get());
  const uint64_t passed = engine->ObserveTimeline(rank_, &timeline_);
  publisher_->Begin(passed, engine->result(rank_).end.ns);
  decoder_->Observe(publisher_.get());
  return publisher_.get();
}

absl::StatusOr<uint64_t> RealRank::AnswerFetches(PayloadTransport* payloads) {
  uint64_t answered = 0;
  awaits_transport_ = false;
  for (auto fetch = fetches_.begin(); fetch != fetches_.end();) {
    const Question& question = fetch->question;
    auto fetched =
        payloads->Fetch(rank_, question.key, question.offset, question.bytes);
    if (!fetched.ok())
      return absl::Status(
          fetched.status().code(),
          fmt::format("rank {}: {}", rank_, std::string(fetched.status().message())));
    AnswerValues values = fetch->clock;
    switch (fetched->state) {
      case PayloadTransport::FetchState::kUnderWay:
        awaits_transport_ = true;
        ++fetch;
        continue;
      case PayloadTransport::FetchState::kNotReady:
        if (!question.if_ready) {
          ++fetch;
          continue;
        }
        values.value = protocol::kNotReady;
        break;
      case PayloadTransport::FetchState::kComputed:
      case PayloadTransport::FetchState::kKnown:
        break;
    }
    Tell(*fetched, question.slot, values);
    fetch = fetches_.erase(fetch);
    ++answered;
  }
  return answered;
}

void RealRank::Tell(const PayloadTransport::Fetched& fetched, uint32_t slot,
                    AnswerValues values) {
  if (fetched.state == PayloadTransport::FetchState::kComputed) {
    values.value = protocol::kComputedResult;
    values.end_ns = static_cast<int64_t>(fetched.bytes);
    if (fetched.unknown_from >= 0)
      unknown_senders_.insert(fetched.unknown_from);
  } else if (fetched.state == PayloadTransport::FetchState::kKnown) {
    if (fetched.bytes > 0)
      std::memcpy(link_->bounce(), fetched.data.data(), fetched.bytes);
    values.value = fetched.bytes;
    (fetched.recorded ? recorded_bytes_ : mirrored_bytes_) += fetched.mirrored_bytes;
    copied_objects_ += fetched.copies_object ? 1 : 0;
  }
  link_->Answer(slot, values);
}

uint64_t RealRank::AnswerAfterFailure(const protocol::Record& record,
                                      PayloadTransport* payloads) {
  if (record.kind != protocol::RecordKind::kFetchPayload ||
      record.size < sizeof(protocol::FetchPayload))
    return 0;
  const auto& fetch = reinterpret_cast<const protocol::FetchPayload&>(record);
  if (fetch.bytes == 0 || fetch.bytes > protocol::kBounceBytes)
    return 0;
  const auto fetched = payloads->Fetch(rank_, fetch.key, fetch.offset, fetch.bytes);
  const bool is_there =
      fetched.ok() && (fetched->state == PayloadTransport::FetchState::kKnown ||
                       fetched->state == PayloadTransport::FetchState::kComputed);
  Tell(is_there ? *fetched
                : PayloadTransport::Fetched{PayloadTransport::FetchState::kComputed,
                                            fetch.bytes,
                                            0,
                                            false,
                                            {}},
       fetch.slot, {.complete = true});
  return is_there ? 0 : fetch.bytes;
}

}  // namespace vrank::emulator
