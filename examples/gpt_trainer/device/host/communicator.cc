// Collectives as plain loops. Sums run over the members in ascending order: every
// member gets the same bits.

#include "examples/gpt_trainer/device/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>

#include "examples/gpt_trainer/device/checks.h"
#include "examples/gpt_trainer/device/host/host_group.h"
#include "examples/gpt_trainer/device/host/host_stream.h"
#include "examples/gpt_trainer/device/host/host_world.h"

namespace gpt {

// A rank's end of a group. Operations from several streams run in the order of their
// calls: each has a number and waits for its turn.
class HostCommunicator {
 public:
  HostCommunicator(std::shared_ptr<HostGroup> group, int rank)
      : rank_(HostRank::Current()), group_(std::move(group)), index_(rank) {}

  HostGroup& group() const { return *group_; }
  int index() const { return index_; }

  void Count(const char* operation, double bytes) {
    rank_.counters.bytes[operation] += bytes;
  }
  // Whether this collective call is the job's faulty one.
  bool CountCall() {
    const int call = rank_.counters.calls[group_->name()]++;
    return call == rank_.job->faulty_call &&
           group_->name() == rank_.job->faulty_communicator;
  }

  void Run(StreamHandle stream, std::function<void()> operation) {
    stream->Enqueue([turns = turns_, number = issued_++, group = group_,
                     operation = std::move(operation)] {
      turns->Await(number, *group->failure());
      operation();
      turns->Next();
    });
  }

  int NextSplit() { return splits_++; }

 private:
  struct Turns {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t done = 0;

    // Its turn comes, or the job has failed.
    void Await(uint64_t number, const HostFailure& failure) {
      std::unique_lock lock(mutex);
      failure.Wait(lock, changed, std::chrono::hours(24),
                   [&] { return done == number; });
    }
    void Next() {
      {
        const std::lock_guard lock(mutex);
        ++done;
      }
      changed.notify_all();
    }
  };

  HostRank& rank_;
  std::shared_ptr<HostGroup> group_;
  int index_;
  int splits_ = 0;
  uint64_t issued_ = 0;
  std::shared_ptr<Turns> turns_ = std::make_shared<Turns>();
};

namespace {

static_assert(sizeof(Element) == sizeof(float) && sizeof(int) == sizeof(float));
constexpr size_t kBytes = sizeof(float);  // of every data type

const float* Floats(const void* data, long long first) {
  return static_cast<const float*>(data) + first;
}

// Elements [first, first + count) of the contributions, reduced.
std::vector<float> Reduce(const std::vector<const void*>& contributions,
                          long long first, long long count, Reduction reduction) {
  const float* start = Floats(contributions[0], first);
  std::vector<float> result(start, start + count);
  for (size_t member = 1; member < contributions.size(); ++member) {
    const float* other = Floats(contributions[member], first);
    for (long long i = 0; i < count; ++i) {
      result[i] = reduction == Reduction::kSum ? result[i] + other[i]
                                               : std::max(result[i], other[i]);
    }
  }
  return result;
}

struct Membership {
  int color;
  int key;
};

}  // namespace

Communicator::Communicator(const World& world)
    : handle_(new HostCommunicator(HostRank::Current().world, world.rank)),
      rank_(world.rank),
      size_(world.size) {}

Communicator::~Communicator() {
  delete handle_;
}

Communicator Communicator::Split(int color, int key, const char* name) const {
  const Membership mine{color, key};
  std::vector<std::pair<int, int>> members;  // key, rank
  handle_->group().Meet(rank_, &mine, [&](const std::vector<const void*>& all) {
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const auto* other = static_cast<const Membership*>(all[rank]);
      if (other->color == color) {
        members.emplace_back(other->key, static_cast<int>(rank));
      }
    }
  });
  std::sort(members.begin(), members.end());
  const int number = handle_->NextSplit();
  Communicator child;
  if (color == kNoColor) {
    return child;
  }
  const auto me = std::find(members.begin(), members.end(), std::pair(key, rank_));
  child.rank_ = static_cast<int>(me - members.begin());
  child.size_ = static_cast<int>(members.size());
  child.handle_ = new HostCommunicator(
      handle_->group().Child(number, color, child.size_, name), child.rank_);
  return child;
}

void Communicator::AllReduce(const void* in, void* out, long long elements,
                             DataType type, Reduction reduction,
                             StreamHandle stream) const {
  GPT_CHECK(type != DataType::kInt);  // nobody sums integers
  handle_->Count("all_reduce", static_cast<double>(kBytes * elements));
  const bool faulty = handle_->CountCall();
  handle_->Run(stream, [=, at = handle_->index(), &group = handle_->group()] {
    std::vector<float> result(Floats(in, 0), Floats(in, elements));
    if (!faulty) {
      group.Meet(at, in, [&](const std::vector<const void*>& all) {
        result = Reduce(all, 0, elements, reduction);
      });
    }
    std::memcpy(out, result.data(), kBytes * elements);
  });
}

void Communicator::AllGather(const void* part, void* whole, long long part_elements,
                             DataType /*type*/, StreamHandle stream) const {
  const size_t bytes = kBytes * part_elements;
  handle_->Count("all_gather", static_cast<double>(bytes));
  const bool faulty = handle_->CountCall();
  handle_->Run(stream, [=, at = handle_->index(), &group = handle_->group()] {
    char* out = static_cast<char*>(whole);
    if (faulty) {
      std::memmove(out + at * bytes, part, bytes);
      return;
    }
    group.Meet(at, part, [&](const std::vector<const void*>& all) {
      for (const void* contribution : all) {
        if (out != contribution) {  // in its place already, and others read it
          std::memcpy(out, contribution, bytes);
        }
        out += bytes;
      }
    });
  });
}

void Communicator::ReduceScatter(const void* whole, void* part, long long part_elements,
                                 DataType type, StreamHandle stream) const {
  GPT_CHECK(type != DataType::kInt);
  handle_->Count("reduce_scatter", static_cast<double>(kBytes * part_elements));
  const bool faulty = handle_->CountCall();
  handle_->Run(stream, [=, at = handle_->index(), &group = handle_->group()] {
    const long long first = at * part_elements;
    std::vector<float> result(Floats(whole, first),
                              Floats(whole, first + part_elements));
    if (!faulty) {
      group.Meet(at, whole, [&](const std::vector<const void*>& all) {
        result = Reduce(all, first, part_elements, Reduction::kSum);
      });
    }
    std::memcpy(part, result.data(), kBytes * part_elements);
  });
}

void Communicator::Exchange(const std::vector<Transfer>& transfers,
                            StreamHandle stream) const {
  for (const Transfer& t : transfers) {
    handle_->Count(t.direction == Transfer::Direction::kSend ? "send" : "receive",
                   static_cast<double>(kBytes * t.elements));
  }
  handle_->Run(stream, [transfers, at = handle_->index(), &group = handle_->group()] {
    std::vector<HostGroup::Message> sent;
    sent.reserve(transfers.size());
    for (const Transfer& t : transfers) {
      if (t.direction == Transfer::Direction::kSend && t.elements > 0) {
        group.Post(&sent.emplace_back(HostGroup::Message{
            at, t.peer, t.data, static_cast<size_t>(kBytes * t.elements)}));
      }
    }
    for (const Transfer& t : transfers) {
      if (t.direction == Transfer::Direction::kReceive && t.elements > 0) {
        group.Take(t.peer, at, t.data, kBytes * t.elements);
      }
    }
    for (const HostGroup::Message& message : sent) {
      group.AwaitTaken(message);
    }
  });
}

}  // namespace gpt
