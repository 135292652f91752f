// Interposed: gathers of PyTorch's Gloo, where some ranks of the job are not real.
//
// A root copies its own part in memory, so that no message shows vrank what a rank that
// is not real would send in its place. In an all-gather every part is on the wire, and
// such a rank contributes what the nearest real rank before it does
// (emulator/store/gloo_group.h). A gather therefore runs as an all-gather of the same
// tag, of which only the root keeps the result.
//
// Layouts are those of gloo/gather.h, gloo/allgather.h and
// gloo/transport/unbound_buffer.h in PyTorch 2.11. Objects are made and destroyed by
// PyTorch's code; an exception of Gloo's passes through, and leaks the other ranks'
// buffer.

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/guest/export.h"
#include "base/guest/raw_log.h"
#include "virtual_host/process/process.h"
#include "virtual_host/quirks/torch_library.h"

namespace gloo {
namespace transport {

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
  void* ptr;
  size_t size;
};

}  // namespace transport

struct Context {
  const int rank;
  const int size;
};

struct GatherOptions {
  Context* context;
  void* context_count;
  transport::UnboundBuffer* in;
  transport::UnboundBuffer* out;  // nullptr: not the root
  size_t element_size;
  int root;
  uint32_t tag;
  int64_t timeout_ms;
};

struct AllgatherOptions {
  Context* context;
  void* context_count;
  transport::UnboundBuffer* in;
  transport::UnboundBuffer* out;
  size_t element_size;
  uint32_t tag;
  int64_t timeout_ms;
};

VRANK_EXPORT void gather(GatherOptions& options);

}  // namespace gloo

namespace vrank::host {
namespace {

constexpr char kLibrary[] = "libtorch_cpu.so";

using Gather = void (*)(gloo::GatherOptions&);
using Allgather = void (*)(gloo::AllgatherOptions&);
using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
// As a member function that returns an object takes its arguments.
using CreateBuffer = Buffer (*)(gloo::Context*, void*, size_t);

bool AllRanksAreReal() {
  const GuestChannel* const channel = HasRealGpu() ? RangesChannel() : ProcessChannel();
  return channel == nullptr || channel->settings().played_ranks == 0;
}

}  // namespace
}  // namespace vrank::host

void gloo::gather(GatherOptions& options) {
  using namespace vrank::host;
  static const auto gather =
      Theirs<Gather>("_ZN4gloo6gatherERNS_13GatherOptionsE", kLibrary);
  static const auto allgather =
      Theirs<Allgather>("_ZN4gloo9allgatherERNS_16AllgatherOptionsE", kLibrary);
  static const auto create =
      Theirs<CreateBuffer>("_ZN4gloo7Context19createUnboundBufferEPvm", kLibrary);
  if (gather == nullptr) {
    vrank::RawLog("virtual_host",
                  "a Gloo that is not PyTorch's gathers; it cannot run");
    abort();
  }
  if (AllRanksAreReal() || allgather == nullptr || create == nullptr ||
      options.in == nullptr)
    return gather(options);
  AllgatherOptions all{options.context,   options.context_count, options.in,
                       options.out,       options.element_size,  options.tag,
                       options.timeout_ms};
  std::unique_ptr<char[]> parts;
  Buffer unused;
  if (options.context->rank != options.root) {
    const size_t bytes = options.in->size * static_cast<size_t>(options.context->size);
    parts.reset(new char[bytes]);
    unused = create(options.context, parts.get(), bytes);
    all.out = unused.get();
  }
  allgather(all);
}
