#include "virtual_gpu/core/time_sources.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

namespace vrank::gpu {
namespace {

using protocol::TimeSource;

constexpr TimeSource kSources[] = {TimeSource::kModelled, TimeSource::kAssumed,
                                   TimeSource::kRecorded, TimeSource::kMeasured};
static_assert(std::size(kSources) == protocol::kTimeSources);

const char* Name(TimeSource source) {
  switch (source) {
    case TimeSource::kModelled:
      return "modelled";
    case TimeSource::kAssumed:
      return "assumed";
    case TimeSource::kRecorded:
      return "recorded";
    case TimeSource::kMeasured:
      return "measured";
  }
  return "assumed";
}

// As Kineto writes a kernel's name: longer symbols stay mangled (libkineto's
// Demangle.cpp, kMaxSymbolSize).
std::string Demangled(const char* symbol) {
  constexpr size_t kLongestSymbol = 1024;
  if (std::strlen(symbol) > kLongestSymbol)
    return symbol;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  return text == nullptr ? symbol : text.get();
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned char>(c));
      quoted += code;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

void TimeSources::AddHost(TimeSource source, int64_t ns) {
  host_ns_[static_cast<size_t>(source)] += ns;
}

void TimeSources::AddWork(const ActivityWork& work, TimeSource source) {
  std::unordered_set<const char*>& names = work_[static_cast<size_t>(source)];
  switch (work.kind) {
    case ActivityWorkKind::kKernel:
    case ActivityWorkKind::kCollective:
      names.insert(work.name);
      return;
    case ActivityWorkKind::kCopy:
      names.insert("Memcpy");
      return;
    case ActivityWorkKind::kMemset:
      names.insert("Memset");
      return;
    case ActivityWorkKind::kHostFunc:  // no profiler shows them
      return;
  }
}

std::string TimeSources::Json() const {
  std::string host, work;
  for (const TimeSource source : kSources) {
    const auto index = static_cast<size_t>(source);
    host += (host.empty() ? "\"" : ", \"") + std::string(Name(source)) +
            "\": " + std::to_string(host_ns_[index]);
    std::set<std::string> texts;
    for (const char* name : work_[index])
      texts.insert(Demangled(name));
    std::string list;
    for (const std::string& text : texts)
      list += (list.empty() ? "" : ", ") + Quoted(text);
    work += (work.empty() ? "\"" : ", \"") + std::string(Name(source)) + "\": [" +
            list + "]";
  }
  return "{\"times\": \"virtual\", \"host_ns\": {" + host + "}, \"work\": {" + work +
         "}}";
}

}  // namespace vrank::gpu
