#include "graph/import/communication_use.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/communication_kernel.h"
#include "base/status_macros.h"

namespace vrank::graph {
namespace {

// What PyTorch calls the launch of several calls at once ("nccl:coalesced").
constexpr char kCoalesced[] = "coalesced";

// "_reduce_scatter_base", "reduce_scatter_tensor_coalesced" -> "reducescatter".
std::string Letters(const std::string& text) {
  std::string letters;
  for (const char c : text)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      letters.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return letters;
}

// The words of ProcessGroupNCCL's calls and of NCCL's kernels. Longer ones first where
// one holds another.
std::optional<CollectiveKind> KindOf(const std::string& text) {
  struct Row {
    const char* word;
    CollectiveKind kind;
  };
  static constexpr Row kRows[] = {
      {"reducescatter", CollectiveKind::kReduceScatter},
      {"allreduce", CollectiveKind::kAllReduce},
      {"barrier", CollectiveKind::kAllReduce},  // one element of it
      {"allgather", CollectiveKind::kAllGather},
      {"alltoall", CollectiveKind::kAllToAll},
      {"broadcast", CollectiveKind::kBroadcast},
      {"reduce", CollectiveKind::kReduce},
      {"gather", CollectiveKind::kGather},
      {"scatter", CollectiveKind::kScatter},
  };
  const std::string letters = Letters(text);
  for (const Row& row : kRows)
    if (letters.find(row.word) != std::string::npos)
      return row.kind;
  return std::nullopt;
}

// c10's names ("Float", "BFloat16") and those of tensors' types ("float", "long int").
ElementType TypeOf(const std::string& text) {
  struct Row {
    const char* word;
    ElementType type;
  };
  static constexpr Row kRows[] = {
      {"BFloat16", ElementType::kBfloat16},
      {"bfloat16", ElementType::kBfloat16},
      {"Half", ElementType::kFloat16},
      {"half", ElementType::kFloat16},
      {"Float8_e4m3", ElementType::kFloat8E4M3},
      {"Float8_e5m2", ElementType::kFloat8E5M2},
      {"Float", ElementType::kFloat32},
      {"float", ElementType::kFloat32},
      {"Double", ElementType::kFloat64},
      {"double", ElementType::kFloat64},
      {"Long", ElementType::kInt64},
      {"long", ElementType::kInt64},
      {"Int", ElementType::kInt32},
      {"int", ElementType::kInt32},
      {"Byte", ElementType::kUint8},
      {"unsigned char", ElementType::kUint8},
      {"Bool", ElementType::kUint8},
      {"bool", ElementType::kUint8},
  };
  for (const Row& row : kRows)
    if (text.find(row.word) != std::string::npos)
      return row.type;
  return ElementType::kInt8;
}

// NCCL's count argument; 0 where the recording does not say.
uint64_t CountOf(CollectiveKind kind, const CollectiveUse& row, size_t members) {
  const auto known = [](int64_t elements) {
    return static_cast<uint64_t>(std::max<int64_t>(0, elements));
  };
  const uint64_t in = known(row.in_elements);
  const uint64_t out = known(row.out_elements);
  switch (kind) {
    case CollectiveKind::kReduceScatter:
      return row.out_elements >= 0 ? out : in / members;
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kScatter:
      return (std::max(in, out) + members - 1) / members;
    case CollectiveKind::kBroadcast:
      return std::max(in, out);
    default:
      return in;
  }
}

// "[0, 1, 2]"; empty where it is shortened ("[0, 1, ...]") or no list.
std::vector<int32_t> ParseRanks(const std::string& text) {
  std::vector<int32_t> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at >= '0' && *at <= '9') {
      int32_t rank = 0;
      const auto parsed = std::from_chars(at, end, rank);
      if (parsed.ec != std::errc())
        return {};
      ranks.push_back(rank);
      at = parsed.ptr;
    } else if (*at == '[' || *at == ']' || *at == ',' || *at == ' ') {
      ++at;
    } else {
      return {};
    }
  }
  return ranks;
}

class Finder {
 public:
  Finder(const Recording& recording, const HostOrder& order, int32_t rank,
         int32_t world_size, ImportLosses* losses)
      : recording_(recording),
        order_(order),
        rank_(rank),
        world_size_(world_size),
        losses_(losses),
        by_thread_(recording.threads.size()),
        launches_(recording.threads.size()),
        last_launch_ns_(recording.threads.size(), std::numeric_limits<int64_t>::min()) {
  }

  absl::StatusOr<CommunicationUses> Run() {
    for (uint32_t i = 0; i < recording_.communications.size(); ++i) {
      const CommunicationRow& row = recording_.communications[i];
      if (row.thread != kNoRow && !row.IsWait())
        by_thread_[row.thread].push_back(i);
    }
    for (auto& rows : by_thread_)
      std::sort(rows.begin(), rows.end(), [&](uint32_t a, uint32_t b) {
        return recording_.communications[a].time.begin_ns <
               recording_.communications[b].time.begin_ns;
      });
    LookAtNames();
    FindSteps();
    FindLaunches();
    for (const Point& point : order_.points)
      if (point.kind == PointKind::kWork &&
          !operations_[recording_.works[point.row].name].empty())
        RETURN_IF_ERROR(Add(point.row));
    return std::move(found_);
  }

 private:
  void LookAtNames() {
    operations_.resize(recording_.names.size());
    std::vector<bool> seen(recording_.names.size());
    for (const DeviceWork& work : recording_.works) {
      if (seen[work.name] || work.work != WorkClass::kKernel)
        continue;
      seen[work.name] = true;
      operations_[work.name] = CommunicationOperation(recording_.names[work.name])
                                   .value_or(std::string_view());
    }
  }

  // Steps of one thread do not overlap.
  void FindSteps() {
    for (const HostActivity& activity : recording_.activities)
      if (activity.is_range && activity.time.begin_ns < activity.time.end_ns &&
          recording_.names[activity.name].rfind(kProfilerStep, 0) == 0)
        steps_.push_back(&activity);
  }
  std::string StepOf(uint32_t work) const {
    const uint32_t launch = order_.call_of[work];
    const int64_t at_ns = launch == kNoRow ? recording_.works[work].time.begin_ns
                                           : recording_.calls[launch].time.begin_ns;
    const auto behind = std::upper_bound(
        steps_.begin(), steps_.end(), at_ns,
        [](int64_t at, const HostActivity* step) { return at < step->time.begin_ns; });
    if (behind == steps_.begin() || (*(behind - 1))->time.end_ns < at_ns)
      return "";
    return recording_.names[(*(behind - 1))->name];
  }

  void FindLaunches() {
    for (const HostCall& call : recording_.calls)
      if (recording_.names[call.name].find("Launch") != std::string::npos)
        launches_[call.thread].push_back(call.time.begin_ns);
  }
  bool HasLaunch(const CommunicationRow& row) const {
    const std::vector<int64_t>& launches = launches_[row.thread];
    const auto next =
        std::lower_bound(launches.begin(), launches.end(), row.time.begin_ns);
    return next != launches.end() && *next <= row.time.end_ns;
  }

  // What the process group's call around the launch says; of nested ones the outermost,
  // which says most.
  const CommunicationRow* Around(uint32_t work) const {
    const uint32_t launch = order_.call_of[work];
    if (launch == kNoRow)
      return nullptr;
    const HostCall& call = recording_.calls[launch];
    const std::vector<uint32_t>& rows = by_thread_[call.thread];
    auto after = std::upper_bound(
        rows.begin(), rows.end(), call.time.begin_ns, [&](int64_t at, uint32_t row) {
          return at < recording_.communications[row].time.begin_ns;
        });
    const CommunicationRow* outermost = nullptr;
    constexpr int kNested = 8;
    for (int i = 0; i < kNested && after != rows.begin(); ++i) {
      const CommunicationRow& row = recording_.communications[*--after];
      if (row.time.end_ns >= call.time.begin_ns)
        outermost = &row;
    }
    return outermost;
  }

  // Sends and receives that the launch of this work carries out, as far as they are
  // calls before it; of nested ones the outermost.
  std::vector<const CommunicationRow*> BatchBefore(uint32_t work) const {
    std::vector<const CommunicationRow*> batch;
    const uint32_t launch = order_.call_of[work];
    if (launch == kNoRow)
      return batch;
    const HostCall& call = recording_.calls[launch];
    int64_t covered_ns = std::numeric_limits<int64_t>::min();
    const std::vector<uint32_t>& rows = by_thread_[call.thread];
    auto next =
        std::upper_bound(rows.begin(), rows.end(), last_launch_ns_[call.thread],
                         [&](int64_t at, uint32_t row) {
                           return at < recording_.communications[row].time.begin_ns;
                         });
    for (; next != rows.end(); ++next) {
      const CommunicationRow& row = recording_.communications[*next];
      if (row.time.begin_ns > call.time.begin_ns)
        break;
      if (!row.IsTransfer() || row.time.end_ns > call.time.begin_ns ||
          row.time.end_ns <= covered_ns || HasLaunch(row))
        continue;
      covered_ns = row.time.end_ns;
      batch.push_back(&row);
    }
    return batch;
  }

  absl::Status Add(uint32_t work) {
    const uint32_t own = recording_.works[work].communication;
    const CommunicationRow* around = Around(work);
    const CommunicationRow* row =
        own != kNoRow ? &recording_.communications[own] : around;
    std::string& operation = found_.operations[work];
    operation = operations_[recording_.works[work].name];
    std::vector<const CommunicationRow*> batch;
    if (row == nullptr || row->operation == kCoalesced)
      batch = BatchBefore(work);
    if (const uint32_t launch = order_.call_of[work]; launch != kNoRow)
      last_launch_ns_[recording_.calls[launch].thread] =
          recording_.calls[launch].time.begin_ns;
    if (!batch.empty())
      return AddTransfers(work, batch, true, &operation);
    if (row == nullptr) {
      ++(*losses_)[ImportLoss::kUnknownCollective];
      return absl::OkStatus();
    }
    if (row->IsBatch())
      return AddBatch(work, *row, &operation);
    if (row->IsTransfer()) {
      const bool more = row->source < 0 && row->destination < 0 && around != nullptr &&
                        around->IsTransfer();
      return AddTransfers(work, {more ? around : row}, false, &operation);
    }
    std::optional<CollectiveKind> kind = KindOf(row->operation);
    if (!kind)
      kind = KindOf(operation);
    if (kind)
      operation = Name(*kind);
    if (!kind) {
      ++(*losses_)[ImportLoss::kUnknownCollective];
      return absl::OkStatus();
    }
    CollectiveUse use;
    use.work = work;
    use.group = row->group;
    use.sequence = row->sequence;
    use.step = StepOf(work);
    use.call.operation = *kind;
    use.call.type = TypeOf(row->type);
    use.in_elements = row->in_elements;
    use.out_elements = row->out_elements;
    RETURN_IF_ERROR(FindMembers(*row, &use));
    found_.collectives.push_back(std::move(use));
    return absl::OkStatus();
  }

  // As one send, one receive, or one of each. Of more, the sums are no part's size, and
  // no peer has such a one.
  absl::Status AddBatch(uint32_t work, const CommunicationRow& row,
                        std::string* operation) {
    TransferUse use;
    use.work = work;
    use.group = row.group;
    use.step = StepOf(work);
    use.is_batch = true;
    ASSIGN_OR_RETURN(const int64_t peer, PeerOf(row));
    const bool known = peer >= 0 && peer < world_size_ && peer != rank_;
    for (const bool is_send : {true, false})
      if (const int64_t elements = is_send ? row.in_elements : row.out_elements;
          elements > 0)
        use.parts.push_back({is_send, known ? static_cast<int32_t>(peer) : kUnknownPeer,
                             static_cast<uint64_t>(elements), TypeOf(row.type)});
    *operation = use.parts.size() != 1       ? "send_receive"
                 : use.parts.front().is_send ? "send"
                                             : "receive";
    if (use.parts.empty())
      ++(*losses_)[ImportLoss::kPointToPoint];
    else
      found_.transfers.push_back(std::move(use));
    return absl::OkStatus();
  }

  absl::Status AddTransfers(uint32_t work,
                            const std::vector<const CommunicationRow*>& rows,
                            bool is_batch, std::string* operation) {
    TransferUse use;
    use.work = work;
    use.group = rows.front()->group;
    use.step = StepOf(work);
    use.is_batch = is_batch;
    size_t sends = 0;
    for (const CommunicationRow* row : rows) {
      sends += row->IsSend() ? 1 : 0;
      ASSIGN_OR_RETURN(const int64_t peer, PeerOf(*row));
      if (peer < 0 || peer >= world_size_ || peer == rank_) {
        use.is_complete = false;
        continue;
      }
      const int64_t elements = row->IsSend() ? row->in_elements : row->out_elements;
      use.parts.push_back({row->IsSend(), static_cast<int32_t>(peer),
                           static_cast<uint64_t>(std::max<int64_t>(
                               0, elements >= 0 ? elements : row->in_elements)),
                           TypeOf(row->type)});
    }
    *operation = sends == rows.size() ? "send"
                 : sends == 0         ? "receive"
                                      : "send_receive";
    if (use.parts.empty())
      ++(*losses_)[ImportLoss::kPointToPoint];
    else
      found_.transfers.push_back(std::move(use));
    return absl::OkStatus();
  }

  // The world rank of the other side; negative: not known, or of another rank's row.
  absl::StatusOr<int64_t> PeerOf(const CommunicationRow& row) const {
    const int64_t own = row.IsSend() ? row.source : row.destination;
    const int64_t stated = row.IsSend() ? row.destination : row.source;
    if (own >= 0 && own != rank_)
      return -1;
    if (stated >= 0)
      return stated;
    int64_t group_size = -1;
    ASSIGN_OR_RETURN(const std::vector<int32_t> members, MembersOf(row, &group_size));
    if (row.group_peer >= 0 && row.group_peer < static_cast<int64_t>(members.size()))
      return members[static_cast<size_t>(row.group_peer)];
    if (members.size() == 2)
      return members[0] == rank_ ? members[1] : members[0];
    // A rank whose place is its rank counts as one of the world.
    return members.empty() && row.group_place == rank_ ? row.group_peer : -1;
  }

  // The ranks of the group, or how many they are, as far as either is recorded.
  absl::Status FindMembers(const CommunicationRow& row, CollectiveUse* use) const {
    ASSIGN_OR_RETURN(std::vector<int32_t> members, MembersOf(row, &use->group_size));
    if (!members.empty())
      SetMembers(std::move(members), use);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<int32_t>> MembersOf(const CommunicationRow& row,
                                                 int64_t* group_size) const {
    std::vector<int32_t> members = ParseRanks(row.group_ranks);
    *group_size = row.group_size > 0 ? row.group_size : -1;
    if (members.empty() && row.group_size > 0 && row.group_size <= world_size_ &&
        row.group_start >= 0 && row.group_stride > 0) {
      for (int64_t i = 0; i < row.group_size; ++i)
        members.push_back(static_cast<int32_t>(row.group_start + i * row.group_stride));
    }
    if (members.empty() && !row.group.empty())
      for (const ProcessGroup& group : recording_.groups)
        if (group.name == row.group) {
          members = group.ranks;
          if (*group_size < 0)
            *group_size = group.size;
        }
    if (members.empty() && (*group_size == world_size_ || world_size_ == 1))
      for (int32_t rank = 0; rank < world_size_; ++rank)
        members.push_back(rank);
    if (members.empty())
      return members;
    std::vector<int32_t> sorted = members;
    std::sort(sorted.begin(), sorted.end());
    if (sorted.front() < 0 || sorted.back() >= world_size_ ||
        std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return absl::InvalidArgumentError(fmt::format(
          "recording '{}': a group has ranks {}, of a world of {}; the recording is "
          "damaged, record again",
          recording_.file, fmt::join(members, ","), world_size_));
    return members;
  }

  const Recording& recording_;
  const HostOrder& order_;
  const int32_t rank_, world_size_;
  ImportLosses* const losses_;
  std::vector<std::vector<uint32_t>> by_thread_;
  std::vector<std::string_view> operations_;  // by name; empty: it does not communicate
  std::vector<const HostActivity*> steps_;    // by begin
  // By thread: when it launched anything, and communication last.
  std::vector<std::vector<int64_t>> launches_;
  std::vector<int64_t> last_launch_ns_;
  CommunicationUses found_;
};

}  // namespace

void SetMembers(std::vector<int32_t> members, CollectiveUse* use) {
  use->call.count = CountOf(use->call.operation, *use, members.size());
  use->members = std::move(members);
}

absl::StatusOr<CommunicationUses> FindCommunication(const Recording& recording,
                                                    const HostOrder& order,
                                                    int32_t rank, int32_t world_size,
                                                    ImportLosses* losses) {
  return Finder(recording, order, rank, world_size, losses).Run();
}

}  // namespace vrank::graph
