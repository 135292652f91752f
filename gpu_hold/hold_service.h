// The host's side of a communicator's holds: issues, releases, and notices when
// somebody dies.
//
//   HoldService service(driver, options);
//   ring = service.Open();
//   service.Begin(ring, launch, &error);   // the stream is held from here on
//   ... on_arrival(ring, arrival) -> the emulator is asked when it ends ...
//   service.Release(ring, arrival.epoch);  // the stream goes on
//
// Rules that keep it from deadlocking (each has a test):
//   - Releases, arrivals and the heartbeat are served by a thread of their own, which
//     makes no CUDA calls: those may wait for the very stream that is held.
//   - A hold depends on the host and on time only, never on work that is queued later;
//     so it ends with one hardware queue, too (CUDA_DEVICE_MAX_CONNECTIONS=1).
//   - Where the emulator dies, AbortAll ends all holds; where this process's service
//     thread dies, the device sees the heartbeat stand still and leaves by itself.
//     Either way Health() says so from then on, and Begin refuses.
//   - Nobody waits for room but the device's own launch queue, in Begin, which holds no
//     lock of the service meanwhile: what it waits for is served, aborts included.
//
// Thread rule: Begin of one ring by one thread at a time; everything else from any.

#ifndef VRANK_GPU_HOLD_HOLD_SERVICE_H_
#define VRANK_GPU_HOLD_HOLD_SERVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/guest/units.h"
#include "gpu_hold/hold_memory.h"
#include "gpu_hold/hold_shape.h"

namespace vrank::hold {

struct HoldLaunch {
  HoldOperation operation = HoldOperation::kAllReduce;
  HoldShape shape;
  HoldParameters parameters;
  void* stream = nullptr;  // cudaStream_t
};

// A hold has begun.
struct HoldArrival {
  uint32_t epoch;
  uint32_t work;       // HoldParameters'
  uint64_t device_ns;  // by the device's clock
};

// The device, or in tests a thread that plays it.
//
// Thread rule: as CUDA's driver API: from any thread.
class HoldDriver {
 public:
  virtual ~HoldDriver() = default;
  // Memory that the device has mapped, zeroed but for `counters`, which is set to
  // zeroed memory of the device; nullptr: there is none.
  virtual HoldRing* NewRing() = 0;
  // REQUIRES: no hold of it is queued or runs.
  virtual void FreeRing(HoldRing* ring) = 0;
  // Queues one hold, or puts it into the graph that the stream's capture makes. False:
  // the device refuses; *error says why.
  virtual bool Launch(HoldRing* ring, const HoldLaunch& launch, std::string* error) = 0;
};

class HoldService {
 public:
  struct Options {
    // How long the device waits for a heartbeat.
    Duration patience = Duration::Seconds(30);
    // Between two looks of the service thread while nothing is expected.
    Duration look_every = Duration::Microseconds(20);
    // On the service's thread: no CUDA calls, no waiting. Release may be called.
    std::function<void(HoldRing* ring, const HoldArrival& arrival)> on_arrival;
    // The emulator still lives; asked every few milliseconds.
    std::function<bool()> emulator_lives;
  };

  // `driver` outlives the service.
  HoldService(HoldDriver* driver, Options options);
  // Ends all holds and waits until the device has left them, at most `patience`; rings
  // that it does not leave are not freed.
  ~HoldService();
  HoldService(const HoldService&) = delete;
  HoldService& operator=(const HoldService&) = delete;

  // nullptr: no memory that the device can map.
  HoldRing* Open();
  // Its holds end as by AbortAll, and a Begin that waits for the device comes to its
  // end.
  void Abort(HoldRing* ring);
  // The same, and nobody names the ring any more: it is freed at a later Open, or at
  // the end, once the device has left it; never where a graph may still launch a hold
  // of it.
  void Close(HoldRing* ring);

  // Queues a hold, or, with a number for its work, captures one for graphs to launch.
  // False: refused, and *error says why.
  bool Begin(HoldRing* ring, const HoldLaunch& launch, std::string* error);
  // The hold of this epoch, and those before it, end.
  void Release(HoldRing* ring, uint32_t epoch);
  void AbortAll();
  // Empty while all is well; else what happened first.
  std::string Health() const;

 private:
  struct Ring {
    HoldRing* memory = nullptr;
    uint32_t called = 0;  // holds that are in no graph
    bool in_graph = false;
    bool aborted = false;
    bool closed = false;
    bool telling = false;  // the service thread is in on_arrival with it
  };

  void FreeClosed();
  Ring* Find(HoldRing* ring);
  bool Count(HoldRing* ring, const HoldLaunch& launch, std::string* error);
  void Serve();
  void Look(HoldRing* ring, std::vector<HoldArrival>* arrivals);
  bool IsIdle(const Ring& ring) const;
  void Fail(const std::string& what);

  HoldDriver* const driver_;
  const Options options_;
  mutable std::mutex mutex_;  // guards everything below but the rings' words
  std::condition_variable stopping_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::string health_;
  bool aborted_ = false;
  bool stop_ = false;
  std::thread server_;
};

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HOLD_SERVICE_H_
