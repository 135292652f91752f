// How a session starts: its servers, what each real rank is told, the ranks themselves.

#include <string.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/decision_log.h"
#include "base/interruption.h"
#include "base/status_macros.h"
#include "emulator/session/rank_exit.h"
#include "emulator/session/session.h"

namespace vrank::emulator {

protocol::Settings Session::SettingsOf(int32_t rank) const {
  protocol::Settings settings = options_.settings;
  settings.rank = static_cast<uint32_t>(rank);
  settings.world_size = static_cast<uint32_t>(options_.world_size);
  settings.played_ranks = static_cast<uint32_t>(options_.virtual_ranks.size());
  settings.local_world_size =
      static_cast<uint32_t>(std::min(options_.ranks_per_node, options_.world_size));
  settings.local_rank = static_cast<uint32_t>(rank % options_.ranks_per_node);
  // As on a real node, every process sees all of its GPUs.
  settings.devices = static_cast<uint32_t>(options_.gpus_per_node);
  return settings;
}

absl::Status Session::Start() {
  SupervisorCallbacks callbacks;
  callbacks.on_line = [this](uint32_t rank, bool is_stderr, std::string_view line) {
    // What ranks say because they are being ended is no news.
    const auto number = static_cast<int32_t>(rank);
    if (options_.on_line && (!ending_ || exits_.count(number) != 0))
      options_.on_line(number, is_stderr, line);
  };
  callbacks.on_exit = [this](uint32_t rank, const ExitStatus& status) {
    LOG_DECISION(launch, 1, "rank {} {}", rank, DescribeExit(status));
    if (ending_)
      return;
    if (options_.launch.launcher.empty())
      exits_[static_cast<int32_t>(rank)] = status;
    else
      for (const int32_t each : options_.real_ranks)
        exits_[each] = status;
  };
  callbacks.on_interrupt = [this](int signal) {
    NoteInterruption(signal);
    interrupted_ =
        absl::CancelledError(fmt::format("interrupted by SIG{}", sigabbrev_np(signal)));
  };
  ASSIGN_OR_RETURN(supervisor_, Supervisor::Create(std::move(callbacks)));
  ASSIGN_OR_RETURN(server_, GuestServer::Create());
  // A launcher may want the usual port for a store of its own.
  const uint16_t wanted_port =
      options_.launch.launcher.empty() ? options_.launch.master_port : 0;
  ASSIGN_OR_RETURN(store_, StoreServer::Create(wanted_port, [this](uint16_t port) {
                     return RankOfPort(port);
                   }));
  store_->TellOfPairs([this](const std::string& id, const PairOfKey& pair) {
    std::array<uint8_t, protocol::kUniqueIdBytes> bytes{};
    std::copy_n(id.begin(), std::min(id.size(), bytes.size()), bytes.begin());
    membership_->NotePair(bytes, {pair.low, pair.high, pair.of_world});
  });
  // What a rank has told the store before is read before.
  world_->BeforeJoins([this] { store_status_.Update(HandleStore()); });
  std::vector<RankPlace> places;
  for (const int32_t rank : options_.real_ranks) {
    const protocol::Settings settings = SettingsOf(rank);
    ASSIGN_OR_RETURN(std::unique_ptr<GuestLink> link, GuestLink::Create(settings));
    link->PlayGaps(options_.recorded_gaps);
    world_->AddReal(rank, link.get());
    server_->AddLink(link.get());
    links_.push_back(std::move(link));
    // This machine's GPUs are dealt out: a rank finds its own by LOCAL_RANK.
    const uint32_t gpus = options_.launch.real_gpus;
    const auto local_rank =
        gpus == 0 ? settings.local_rank : static_cast<uint32_t>(places.size()) % gpus;
    places.push_back(RankPlace{settings.rank, settings.world_size, local_rank,
                               settings.local_world_size});
  }
  for (const VirtualRank& rank : options_.virtual_ranks) {
    switch (rank.part) {
      case VirtualRank::Part::kFollower:
        world_->AddFollower(rank.rank, rank.leader);
        break;
      case VirtualRank::Part::kRecorded:
        world_->AddRecorded(rank.rank, rank.program, rank.leader);
        break;
      case VirtualRank::Part::kAbsent:
        world_->AddAbsent(rank.rank);
        break;
    }
  }
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  for (const int fd : {supervisor_->poll_fd(), server_->poll_fd(), server_->doorbell(),
                       store_->poll_fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
      return absl::InternalError(fmt::format("epoll: {}", strerror(errno)));
  }
  if (!options_.launch.launcher.empty())
    places.resize(1);
  options_.launch.socket_address = server_->address();
  options_.launch.variables.emplace_back("VRANK_TOKEN", server_->token());
  if (!options_.launch.launcher.empty())
    options_.launch.variables.emplace_back("VRANK_LAUNCHER_GPUS",
                                           std::to_string(options_.gpus_per_node));
  options_.launch.master_port = store_->port();
  RETURN_IF_ERROR(supervisor_->StartRanks(options_.launch, places));
  addresses_randomized_ = supervisor_->addresses_randomized();
  return absl::OkStatus();
}

}  // namespace vrank::emulator
