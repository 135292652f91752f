// NVTX ranges of the program as records.
//
// NVTX is header-only: at its first call it loads the library that
// NVTX_INJECTION64_PATH names and lets InitializeInjectionNvtx2 put functions into its
// tables. We fill the ones for marks and ranges; the rest keeps NVTX's do-nothing
// functions.
//
// Only ranges of threads that issue work are written, since only those lie on the
// host's timeline, on a real GPU, whose work nobody sees, those of all threads; a range
// that was left out when it began is left out when it ends. A name in a domain reads
// "domain::name". A mark is an empty range.
//
// Thread rule: as NVTX: any thread.

#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/guest/export.h"
#include "base/guest/program_call.h"
#include "base/guest/thread_value.h"
#include "virtual_host/process/process.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/thread_state.h"

// NVTX declares the types behind its handles and leaves their definition to us.
struct nvtxDomainRegistration_st {
  std::string prefix;  // "name::", empty for the default domain
};
struct nvtxStringRegistration_st {
  std::string text;
};

namespace vrank::host {
namespace {

using Domain = nvtxDomainRegistration_st;

struct OpenRange {
  const Domain* domain;
  uint32_t name;  // 0: left out, or nameless
  bool written;
  uint32_t told_as = 0;  // the id under which a listener was told; 0: nobody was
};
// Pushed ranges of this thread, all domains in one stack: the usual case is one domain.
struct PushedRanges {
  std::vector<OpenRange> ranges;
};
std::vector<OpenRange>& Pushed() {
  return ThreadValue<PushedRanges>::Mine().ranges;
}

// Started ranges may end on another thread.
FutexLock started_lock;
uint64_t started_count = 0;
std::unordered_map<uint64_t, OpenRange>& Started() {
  static auto* const started = new std::unordered_map<uint64_t, OpenRange>;
  return *started;
}

std::string FromWide(const wchar_t* text) {
  std::string utf8;
  for (; text != nullptr && *text != 0; ++text) {
    const auto c = static_cast<uint32_t>(*text);
    if (c < 0x80) {
      utf8 += static_cast<char>(c);
    } else if (c < 0x800) {
      utf8 += static_cast<char>(0xc0 | c >> 6);
      utf8 += static_cast<char>(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      utf8 += static_cast<char>(0xe0 | c >> 12);
      utf8 += static_cast<char>(0x80 | (c >> 6 & 0x3f));
      utf8 += static_cast<char>(0x80 | (c & 0x3f));
    } else {
      utf8 += static_cast<char>(0xf0 | (c >> 18 & 7));
      utf8 += static_cast<char>(0x80 | (c >> 12 & 0x3f));
      utf8 += static_cast<char>(0x80 | (c >> 6 & 0x3f));
      utf8 += static_cast<char>(0x80 | (c & 0x3f));
    }
  }
  return utf8;
}

std::string TextOf(const nvtxEventAttributes_t* event) {
  if (event == nullptr)
    return "";
  switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return event->message.ascii == nullptr ? "" : event->message.ascii;
    case NVTX_MESSAGE_TYPE_UNICODE:
      return FromWide(event->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED:
      return event->message.registered == nullptr ? ""
                                                  : event->message.registered->text;
    default:
      return "";
  }
}

void Write(GuestChannel* channel, protocol::RecordKind kind, uint32_t name) {
  protocol::Range record{};
  record.record.kind = kind;
  record.name = name;
  channel->Emit(record);
}

OpenRange Begin(const Domain* domain, std::string_view text) {
  GuestChannel* const channel = RangesChannel();
  OpenRange range{domain, 0,
                  channel != nullptr && (thread_state.issuing() || HasRealGpu())};
  if (!range.written)
    return range;
  // What the program computes before its range is none of it.
  const ProgramCall call(channel, "nvtxRangeBegin");
  range.name = domain == nullptr ? channel->Name(text)
                                 : channel->Name(domain->prefix + std::string(text));
  Write(channel, protocol::RecordKind::kRangeBegin, range.name);
  if (ProfiledGpu* const gpu = channel->profiled_gpu()) [[unlikely]] {
    static std::atomic<uint32_t> ids{0};
    range.told_as = ++ids;
    gpu->OnRange(true, range.told_as,
                 (domain == nullptr ? "" : domain->prefix) + std::string(text));
  }
  return range;
}

void End(const OpenRange& range) {
  if (!range.written)
    return;
  GuestChannel* const channel = RangesChannel();
  const ProgramCall call(channel, "nvtxRangeEnd");
  Write(channel, protocol::RecordKind::kRangeEnd, range.name);
  ProfiledGpu* const gpu = channel->profiled_gpu();
  if (range.told_as != 0 && gpu != nullptr) [[unlikely]]
    gpu->OnRange(false, range.told_as, {});
}

void Mark(const Domain* domain, std::string_view text) {
  End(Begin(domain, text));
}

// NVTX asks for the level of the range that begins or ends, from 0.
int Level(const Domain* domain) {
  int level = 0;
  for (const OpenRange& range : Pushed())
    level += range.domain == domain ? 1 : 0;
  return level;
}

int Push(const Domain* domain, std::string_view text) {
  const int level = Level(domain);
  Pushed().push_back(Begin(domain, text));
  return level;
}

int Pop(const Domain* domain) {
  std::vector<OpenRange>& pushed = Pushed();
  for (size_t i = pushed.size(); i > 0; --i) {
    if (pushed[i - 1].domain != domain)
      continue;
    End(pushed[i - 1]);
    pushed.erase(pushed.begin() + static_cast<ptrdiff_t>(i - 1));
    return Level(domain);
  }
  return NVTX_NO_PUSH_POP_TRACKING;
}

nvtxRangeId_t Start(const Domain* domain, std::string_view text) {
  const OpenRange range = Begin(domain, text);
  LockGuard guard(&started_lock);
  Started().emplace(++started_count, range);
  return started_count;
}

void Stop(nvtxRangeId_t id) {
  OpenRange range{};
  {
    LockGuard guard(&started_lock);
    const auto found = Started().find(id);
    if (found == Started().end())
      return;
    range = found->second;
    Started().erase(found);
  }
  End(range);
}

Domain* MakeDomain(const std::string& name) {
  return new Domain{name + "::"};
}

using Event = const nvtxEventAttributes_t*;
using Any = void (*)();

template <typename Function>
Any Entry(Function* function) {
  return reinterpret_cast<Any>(function);
}

void Put(NvtxFunctionTable table, unsigned size, unsigned id, Any function) {
  if (id < size && table[id] != nullptr)
    *table[id] = function;
}

void FillCore(NvtxFunctionTable table, unsigned size) {
  auto put = [=](unsigned id, Any function) { Put(table, size, id, function); };
  put(NVTX_CBID_CORE_MarkEx, Entry(+[](Event e) { Mark(nullptr, TextOf(e)); }));
  put(NVTX_CBID_CORE_MarkA,
      Entry(+[](const char* text) { Mark(nullptr, text == nullptr ? "" : text); }));
  put(NVTX_CBID_CORE_MarkW,
      Entry(+[](const wchar_t* text) { Mark(nullptr, FromWide(text)); }));
  put(NVTX_CBID_CORE_RangeStartEx,
      Entry(+[](Event e) { return Start(nullptr, TextOf(e)); }));
  put(NVTX_CBID_CORE_RangeStartA, Entry(+[](const char* text) {
        return Start(nullptr, text == nullptr ? "" : text);
      }));
  put(NVTX_CBID_CORE_RangeStartW,
      Entry(+[](const wchar_t* text) { return Start(nullptr, FromWide(text)); }));
  put(NVTX_CBID_CORE_RangeEnd, Entry(+[](nvtxRangeId_t id) { Stop(id); }));
  put(NVTX_CBID_CORE_RangePushEx,
      Entry(+[](Event e) { return Push(nullptr, TextOf(e)); }));
  put(NVTX_CBID_CORE_RangePushA, Entry(+[](const char* text) {
        return Push(nullptr, text == nullptr ? "" : text);
      }));
  put(NVTX_CBID_CORE_RangePushW,
      Entry(+[](const wchar_t* text) { return Push(nullptr, FromWide(text)); }));
  put(NVTX_CBID_CORE_RangePop, Entry(+[] { return Pop(nullptr); }));
}

void FillDomains(NvtxFunctionTable table, unsigned size) {
  auto put = [=](unsigned id, Any function) { Put(table, size, id, function); };
  put(NVTX_CBID_CORE2_DomainMarkEx,
      Entry(+[](Domain* domain, Event e) { Mark(domain, TextOf(e)); }));
  put(NVTX_CBID_CORE2_DomainRangeStartEx,
      Entry(+[](Domain* domain, Event e) { return Start(domain, TextOf(e)); }));
  put(NVTX_CBID_CORE2_DomainRangeEnd,
      Entry(+[](Domain*, nvtxRangeId_t id) { Stop(id); }));
  put(NVTX_CBID_CORE2_DomainRangePushEx,
      Entry(+[](Domain* domain, Event e) { return Push(domain, TextOf(e)); }));
  put(NVTX_CBID_CORE2_DomainRangePop,
      Entry(+[](Domain* domain) { return Pop(domain); }));
  put(NVTX_CBID_CORE2_DomainCreateA,
      Entry(+[](const char* name) { return MakeDomain(name == nullptr ? "" : name); }));
  put(NVTX_CBID_CORE2_DomainCreateW,
      Entry(+[](const wchar_t* name) { return MakeDomain(FromWide(name)); }));
  // Domains and strings are kept: open ranges refer to them, and programs make few.
  put(NVTX_CBID_CORE2_DomainRegisterStringA, Entry(+[](Domain*, const char* text) {
        return new nvtxStringRegistration_st{text == nullptr ? "" : text};
      }));
  put(NVTX_CBID_CORE2_DomainRegisterStringW, Entry(+[](Domain*, const wchar_t* text) {
        return new nvtxStringRegistration_st{FromWide(text)};
      }));
}

}  // namespace
}  // namespace vrank::host

// NVTX's entry point: 1 where the tables are filled.
extern "C" VRANK_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  if (get == nullptr || vrank::host::RangesChannel() == nullptr)
    return 0;
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks)
    return 0;
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0)
    return 0;
  vrank::host::FillCore(table, size);
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) != 0)
    vrank::host::FillDomains(table, size);
  return 1;
}
