#include "virtual_gpu/core/deferred_launch.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "virtual_gpu/code/lanes.h"
#include "virtual_gpu/core/kernel_code.h"
#include "virtual_gpu/core/kernel_values.h"

namespace vrank::gpu {

// A kernel's code for values, which are computed by any thread.
struct SharedCode {
  std::mutex mutex;
  MachineCode code;
};

namespace {

// Of one launch: memory that it reads, values that follow from each other, and
// instructions.
constexpr size_t kMostParts = 2048;
constexpr uint32_t kMostDepth = 16;
constexpr uint64_t kMostInstructions = 4'000'000;

// Calls visit(offset, bytes) for the parts of a range that are memory.
template <typename Visit>
void ForMemory(Contents& contents, uint64_t address, uint64_t bytes, Visit visit) {
  // Allocations begin at multiples of this.
  constexpr uint64_t kStep = 256;
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t end = contents.EndOf(address + at);
    const uint64_t here = end == 0 ? 0 : std::min(bytes - at, end - (address + at));
    if (here == 0 || !contents.IsValid(address + at, here)) {
      at += kStep - (address + at) % kStep;
      continue;
    }
    visit(at, here);
    at += here;
  }
}

// Calls visit(offset, bytes) for the stretches of equal flags.
template <typename Visit>
void ForStretches(std::span<const unsigned char> flags, Visit visit) {
  for (size_t at = 0; at < flags.size();) {
    size_t end = at + 1;
    while (end < flags.size() && flags[end] == flags[at])
      ++end;
    visit(at, end - at);
    at = end;
  }
}

// A part of memory in a value's inputs.
struct Kept {
  uint64_t address;
  size_t input;
};

// The memory that the launch ran with, and what has arrived since.
class KeptMemory final : public DeviceBytes {
 public:
  KeptMemory(const std::vector<Kept>& kept, const PendingValue::Inputs& inputs,
             const PendingValue::Inputs& known) {
    for (const Kept& each : kept)
      parts_[each.address] = {inputs[each.input], known[each.input]};
  }

  void Load(uint64_t address, uint64_t bytes, unsigned char* to,
            const Flags& flags) override {
    for (auto part = parts_.lower_bound(address);
         part != parts_.end() && part->first < address + bytes; ++part) {
      const uint64_t at = part->first - address;
      const auto& [from, known] = part->second;
      const size_t length = std::min<uint64_t>(from.size(), bytes - at);
      std::memcpy(to + at, from.data(), length);
      std::memcpy(flags.known + at, known.data(), length);
      std::memset(flags.valid + at, 0xff, length);
    }
  }

 private:
  struct Bytes {
    std::span<const unsigned char> from, known;
  };
  std::map<uint64_t, Bytes> parts_;
};

// The launch again.
struct Rerun {
  std::shared_ptr<SharedCode> shared;
  InterpretedLaunch launch;
  std::vector<unsigned char> parameters;
  std::vector<Kept> kept;
  struct Wanted {
    uint64_t address, bytes;
  };
  std::vector<Wanted> wanted;
  Channel* channel;

  void operator()(const PendingValue::Inputs& inputs, const PendingValue::Inputs& known,
                  std::span<unsigned char> out, std::span<unsigned char> flags) const {
    KeptMemory device(kept, inputs, known);
    OverlayMemory memory(&device);
    InterpretedLaunch run = launch;
    run.parameters = parameters.data();
    std::lock_guard lock(shared->mutex);
    const int64_t began_ns = channel->ThreadCpuNs();
    const Outcome outcome = Interpret(shared->code, run, &memory);
    channel->NoteGpuWork(channel->ThreadCpuNs() - began_ns);
    if (outcome.kind != Outcome::Kind::kDone)
      return;
    uint64_t at = 0;
    for (const Wanted& each : wanted) {
      for (const OverlayMemory::Run& written : memory.Written()) {
        const uint64_t begin = std::max(each.address, written.address);
        const uint64_t end =
            std::min(each.address + each.bytes, written.address + written.bytes.size());
        if (!written.known || begin >= end)
          continue;
        const uint64_t to = at + (begin - each.address);
        std::memcpy(&out[to], &written.bytes[begin - written.address], end - begin);
        std::memset(&flags[to], 0xff, end - begin);
      }
      at += each.bytes;
    }
  }
};

}  // namespace

bool IsAwaited(const Origin& origin) {
  return origin.kind == Origin::Kind::kResult    ? origin.arrival != 0
         : origin.kind == Origin::Kind::kPending ? origin.pending->tracked
                                                 : false;
}

void LaunchMemory::Fetch(uint64_t address, uint64_t bytes, const Origin& origin,
                         unsigned char* to, unsigned char* known) {
  obligations_->Land({origin.key, origin.offset, bytes, to, origin.pending, known});
  ForStretches({known, bytes}, [&](size_t at, size_t length) {
    if (known[at] == 0 ||
        !contents_->StoreBytes(address + at, to + at, length, origin.writer))
      contents_->Write(address + at, length, Origin::Computed(""));
  });
}

void LaunchMemory::Load(uint64_t address, uint64_t bytes, unsigned char* to,
                        const Flags& flags) {
  parts_.push_back({address, bytes});
  ForMemory(*contents_, address, bytes, [&](uint64_t at, uint64_t here) {
    std::memset(flags.valid + at, 0xff, here);
    for (const ContentRun& run : contents_->Runs(address + at, here)) {
      const uint64_t place = at + run.begin, length = run.end - run.begin;
      const Origin& origin = run.origin;
      if (CopyKnown(run, address + at, to + place))
        std::memset(flags.known + place, 0xff, length);
      else if (IsAwaited(origin) &&
               obligations_->HaveArrived(origin.pending != nullptr
                                             ? origin.pending->arrivals
                                             : ObligationSet{origin.arrival}))
        Fetch(address + place, length, origin, to + place, flags.known + place);
      else if (IsAwaited(origin))
        std::memset(flags.awaited + place, 0xff, length);
      if (origin.made_up())
        std::memset(flags.made_up + place, 0xff, length);
    }
  });
}

std::shared_ptr<PendingValue> Defer(const DeferredLaunch& deferred, Channel* channel,
                                    Contents& contents) {
  if (deferred.memory.parts().size() > kMostParts ||
      deferred.thread_instructions > kMostInstructions)
    return nullptr;
  KernelComputation& how = deferred.how;
  if (how.shared == nullptr) {
    how.shared = std::make_shared<SharedCode>();
    how.shared->code = *how.code;
  }
  auto value = std::make_shared<PendingValue>();
  Rerun again{how.shared, deferred.launch, {}, {}, {}, channel};
  again.parameters.assign(deferred.launch.parameters,
                          deferred.launch.parameters + deferred.launch.parameter_bytes);
  // Each byte of the input counts by itself here; the way is the same.
  again.launch.needs_known_input = false;
  again.launch.most_thread_instructions = deferred.thread_instructions + kLanes;
  // Parts are pages: beside what the launch has read lies what it has not, such as the
  // result of an earlier collective.
  for (const LaunchMemory::Part& part : deferred.memory.parts())
    ForMemory(contents, part.address, part.bytes, [&](uint64_t at, uint64_t here) {
      again.kept.push_back({part.address + at, value->inputs.size()});
      AddInput(contents, {part.address + at, here}, value.get(), InputPart::kAwaited);
    });
  if (!value->tracked || value->depth > kMostDepth)
    return nullptr;
  for (const OverlayMemory::Run& run : deferred.written) {
    if (run.known)
      continue;
    again.wanted.push_back({run.address, run.bytes.size()});
    value->result_bytes += run.bytes.size();
  }
  value->compute = std::move(again);
  return value;
}

}  // namespace vrank::gpu
