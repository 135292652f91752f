// An emulator for tests: a thread that reads one rank's records and answers questions.
//
// What it answers is a function of the test's; what it saw can be looked at afterwards.

#ifndef VRANK_TESTS_VIRTUAL_HOST_FAKE_EMULATOR_H_
#define VRANK_TESTS_VIRTUAL_HOST_FAKE_EMULATOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emulator/connect/guest_link.h"
#include "virtual_host/channel/connection.h"
#include "virtual_host/channel/guest_channel.h"

namespace vrank::host {

inline protocol::Settings TestSettings() {
  protocol::Settings settings{};
  settings.world_size = 1;
  settings.local_world_size = 1;
  settings.launch_queue_depth = 4;
  settings.realtime_at_start_ns = 2'000'000'000'000'000'000;
  settings.monotonic_at_start_ns = 5'000'000'000;
  settings.host_costs_ns[static_cast<size_t>(HostCost::kClockRead)] = 25;
  settings.host_costs_ns[static_cast<size_t>(HostCost::kYield)] = 200;
  return settings;
}

// A record as it lay in the ring.
struct SeenRecord {
  std::string bytes;
  const protocol::Record& record() const {
    return *reinterpret_cast<const protocol::Record*>(bytes.data());
  }
  template <typename T>
  const T& As() const {
    return *reinterpret_cast<const T*>(bytes.data());
  }
};

// A link and a channel in this process, without sockets. The channel is never destroyed
// before the link's mapping ends.
class LinkedChannel {
 public:
  explicit LinkedChannel(const protocol::Settings& settings = TestSettings())
      : link_(std::move(emulator::GuestLink::Create(settings).value())) {
    MapSegment(link_->memfd(), &connection_);
    // Leaked, as in a real process: threads of the test may end after it.
    channel_ = new GuestChannel(connection_);
  }
  emulator::GuestLink& link() { return *link_; }
  GuestChannel& channel() { return *channel_; }
  protocol::SegmentHeader& header() { return connection_.segment->header; }

 private:
  std::unique_ptr<emulator::GuestLink> link_;
  Connection connection_;
  GuestChannel* channel_;
};

// Drains a link on a thread of its own until the test is over.
class FakeEmulator {
 public:
  // Called for every record, on the emulator's thread.
  using OnRecord =
      std::function<void(emulator::GuestLink& link, const protocol::Record& record)>;

  FakeEmulator(emulator::GuestLink* link, OnRecord on_record)
      : link_(link), on_record_(std::move(on_record)), thread_([this] { Run(); }) {}
  ~FakeEmulator() { Stop(); }
  FakeEmulator(const FakeEmulator&) = delete;
  FakeEmulator& operator=(const FakeEmulator&) = delete;

  // Drains what is left and returns all records.
  const std::vector<SeenRecord>& Stop() {
    stop_ = true;
    if (thread_.joinable())
      thread_.join();
    return seen_;
  }

 private:
  void Run() {
    bool last = false;
    while (!last) {
      last = stop_;
      while (const protocol::Record* record = link_->Next()) {
        seen_.push_back(
            {std::string(reinterpret_cast<const char*>(record), record->size)});
        if (on_record_)
          on_record_(*link_, *record);
        link_->Consume();
      }
      link_->NoteSettled();
      std::this_thread::yield();
    }
  }

  emulator::GuestLink* const link_;
  const OnRecord on_record_;
  std::atomic<bool> stop_{false};
  std::vector<SeenRecord> seen_;
  std::thread thread_;
};

}  // namespace vrank::host

#endif  // VRANK_TESTS_VIRTUAL_HOST_FAKE_EMULATOR_H_
