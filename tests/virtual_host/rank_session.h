// One real rank with the preloaded library, and an emulator as simple as can be: its
// host clock is the sum of what the records carry, and questions cost nothing. Limits
// of waits are reached where the rank is quiet.

#ifndef VRANK_TESTS_VIRTUAL_HOST_RANK_SESSION_H_
#define VRANK_TESTS_VIRTUAL_HOST_RANK_SESSION_H_

#include <poll.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/connect/guest_link.h"
#include "emulator/connect/guest_server.h"
#include "emulator/launch/supervisor.h"
#include "emulator/watch/quiet_watch.h"
#include "tests/virtual_host/fake_emulator.h"

namespace vrank::host {

class RankSession {
 public:
  RankSession() {
    emulator::SupervisorCallbacks callbacks;
    callbacks.on_line = [this](uint32_t, bool is_stderr, std::string_view text) {
      (is_stderr ? errors : lines).emplace_back(text);
    };
    callbacks.on_exit = [this](uint32_t, const emulator::ExitStatus& status) {
      exit = status.Describe();
    };
    callbacks.on_interrupt = [](int) {};
    supervisor = std::move(emulator::Supervisor::Create(callbacks).value());
    link = std::move(emulator::GuestLink::Create(TestSettings()).value());
    server = std::move(emulator::GuestServer::Create().value());
    server->AddLink(link.get());
  }

  absl::Status Start(std::vector<std::string> command, const std::string& guest_folder,
                     std::vector<std::pair<std::string, std::string>> variables = {}) {
    emulator::LaunchOptions options;
    options.command = std::move(command);
    options.guest_folder = guest_folder;
    options.preload = {"libvrank_host.so"};
    options.socket_address = server->address();
    variables.emplace(variables.begin(), "VRANK_TOKEN", server->token());
    options.variables = std::move(variables);
    return supervisor->StartRanks(options, {{}});
  }

  // Serves everything until `done`; false after a minute.
  template <typename Done>
  bool RunUntil(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end)
        return false;
      link->PrepareToSleep(emulator::GuestLink::WakeFor::kQuestions);
      pollfd ready[] = {{supervisor->poll_fd(), POLLIN, 0},
                        {server->poll_fd(), POLLIN, 0},
                        {server->doorbell(), POLLIN, 0}};
      poll(ready, 3, link->BytesWaiting() > 0 ? 0 : 5);
      GrantLimitWhereQuiet();
      link->WokeUp();
      server->ClearDoorbell();
      (void)supervisor->HandleEvents();
      for (emulator::GuestEvent& event : server->HandleEvents())
        events.push_back(std::move(event));
      Drain();
    }
    return true;
  }
  bool RunToEnd() {
    return RunUntil([this] { return supervisor->AllExited(); });
  }

  std::vector<std::string> lines, errors;
  std::string exit;
  std::vector<emulator::GuestEvent> events;
  std::vector<SeenRecord> records;
  std::unique_ptr<emulator::Supervisor> supervisor;
  std::unique_ptr<emulator::GuestLink> link;
  std::unique_ptr<emulator::GuestServer> server;

 private:
  void GrantLimitWhereQuiet() {
    const auto quiet = quiet_.Look(emulator::QuietWatch::Clock::now(), {link.get()});
    const auto limit = link->EarliestLimit();
    // A driver that sleeps naps for a millisecond of real time, in which all are quiet.
    if (quiet < std::chrono::milliseconds(20) || link->Blocked() ||
        !limit.has_value() || link->HasGrant())
      return;
    link->GrantLimit(*limit);
    quiet_.Moved();
  }

  void Drain() {
    while (const protocol::Record* record = link->Next()) {
      records.push_back(
          {std::string(reinterpret_cast<const char*>(record), record->size)});
      host_ns_ += record->host_ns;
      if (record->kind == protocol::RecordKind::kAskClock)
        link->Answer(records.back().As<protocol::AskClock>().slot,
                     {.host_ns = host_ns_});
      link->Consume();
    }
    link->NoteSettled();
  }

  int64_t host_ns_ = 0;
  emulator::ThreadWatch threads_;
  emulator::QuietWatch quiet_{&threads_};
};

}  // namespace vrank::host

#endif  // VRANK_TESTS_VIRTUAL_HOST_RANK_SESSION_H_
