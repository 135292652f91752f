// Asks CUPTI for records and writes down what it delivers.
//
// CUPTI stores activity records in buffers of ours and gives full ones back on a thread
// of its own; they are decoded there, so that the program's threads pay for CUPTI's own
// stores and nothing else. (Only a flush decodes on the thread that asked for it.)
//
// Subscribing to callbacks is how users of CUPTI find out about each other: libcupti
// has room for one subscriber, and two users of the activity API without that would
// overwrite each other's settings. But nothing keeps a program from being the second
// user all the same: who registers buffer callbacks last gets all records. So the
// session ends with a record that it asked for, and finds out whether that comes.
//
// The only callbacks that are enabled are those for what no activity record shows: the
// ends of streams, when contexts come and go, and graphs (graph_watch.h).
//
// Thread rule: Start and Stop from one thread; the rest from any. One session per
// process, since CUPTI's buffer callbacks carry no user data.

#ifndef VRANK_TRACER_CUPTI_CUPTI_SESSION_H_
#define VRANK_TRACER_CUPTI_CUPTI_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tracer/cupti/cupti_library.h"
#include "tracer/cupti/decoder.h"
#include "tracer/cupti/graph_watch.h"
#include "tracer/record/trace_writer.h"

namespace vrank::tracer {

class CuptiSession {
 public:
  // `writer` is open and outlives the session.
  explicit CuptiSession(TraceWriter* writer) : writer_(writer) {}
  ~CuptiSession();
  CuptiSession(const CuptiSession&) = delete;
  CuptiSession& operator=(const CuptiSession&) = delete;

  // `tell` is called once, when the process makes its first context and before anything
  // is written down of that. Before Start.
  void TellOfFirstContext(std::function<void()> tell) { tell_ = std::move(tell); }
  // `cupti`: see VRANK_TRACE_CUPTI. False with a sentence in *why; nothing is left
  // enabled then.
  bool Start(const std::string& cupti, std::string* why);
  // Flushes and stops. Blocks until all work that CUPTI reports has ended.
  void Stop();
  // Known after Stop: the last records did not come here. A process has one pair of
  // buffer callbacks, and somebody else has registered his or detached CUPTI.
  bool records_taken() const { return records_taken_; }
  // CUPTI is not to be called any more: after a fork, in the child, or where the
  // process is not traced after all.
  void StandDown() { on_.store(false); }

  bool on() const { return on_.load(std::memory_order_relaxed); }
  // CUPTI's clock; 0 where the session is not on.
  int64_t Now() const;
  // From here to the pop, calls of this thread are joined to `id` (trace::ExternalId).
  bool PushExternalId(uint64_t id) const;
  void PopExternalId() const;
  // Records that CUPTI says it lost.
  uint64_t dropped() const { return dropped_.load(); }

 private:
  bool Subscribe(std::string* why);
  bool EnableKinds(std::string* why);
  void DisableKinds();
  void LeaveOutCalls();
  bool Watch(std::string* why);
  void AskForAProof();
  void Decode(uint8_t* buffer, size_t bytes);
  void OnStreamEnds(const CUpti_ResourceData& stream);
  void OnContext(const CUpti_ResourceData& context, bool destroyed);

  static void CUPTIAPI OnBufferRequested(uint8_t** buffer, size_t* size,
                                         size_t* max_records);
  static void CUPTIAPI OnBufferCompleted(CUcontext context, uint32_t stream,
                                         uint8_t* buffer, size_t size,
                                         size_t valid_bytes);
  static void CUPTIAPI OnCallback(void* self, CUpti_CallbackDomain domain,
                                  CUpti_CallbackId cbid, const void* data);

  TraceWriter* const writer_;
  CuptiLibrary cupti_;
  uint32_t version_ = 0;
  std::unique_ptr<Decoder> decoder_;
  GraphWatch graphs_{&cupti_, writer_};
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<CUpti_ActivityKind> enabled_;
  std::atomic<bool> on_ = false;
  std::atomic<bool> told_ = false;
  std::function<void()> tell_;
  std::atomic<uint64_t> dropped_ = 0;
  std::atomic<bool> proof_awaited_ = false;
  bool records_taken_ = false;
  std::mutex decoding_;  // one buffer at a time

  std::mutex buffers_mutex_;
  std::vector<uint8_t*> free_buffers_;
};

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_CUPTI_CUPTI_SESSION_H_
