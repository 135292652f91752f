// NCCL_DEBUG and NCCL_DEBUG_FILE; formats as NCCL 2.28.9 writes them (src/debug.cc).

#include "virtual_nccl/core/debug_log.h"

#include <nccl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/guest/raw_log.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {
namespace {

constexpr int kUnread = -1;

std::mutex log_mutex;      // guards the two below
FILE* log_file = nullptr;  // nullptr: standard output
bool version_is_written = false;
std::atomic<int> level = kUnread;  // a DebugLevel once read
std::atomic<uint32_t> shown = 0;   // bits by Subsystem; 0 below NCCL_DEBUG=INFO

constexpr uint32_t Bit(Subsystem subsystem) {
  return 1u << static_cast<int>(subsystem);
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  std::string host = name;
  return host.substr(0, host.find('.'));
}

std::string ExpandFileName(const char* pattern) {
  std::string expanded;
  for (const char* at = pattern; *at != '\0'; ++at) {
    if (at[0] != '%' || at[1] == '\0') {
      expanded += *at;
      continue;
    }
    ++at;
    if (*at == 'h')
      expanded += HostName();
    else if (*at == 'p')
      expanded += std::to_string(getpid());
    else if (*at == '%')
      expanded += '%';
    else
      (expanded += '%') += *at;
  }
  return expanded;
}

DebugLevel ParseLevel(const char* text) {
  if (text == nullptr)
    return DebugLevel::kNone;
  if (strcasecmp(text, "VERSION") == 0)
    return DebugLevel::kVersion;
  if (strcasecmp(text, "WARN") == 0)
    return DebugLevel::kWarn;
  for (const char* name : {"INFO", "ABORT", "TRACE"})
    if (strcasecmp(text, name) == 0)
      return DebugLevel::kInfo;
  return DebugLevel::kNone;
}

// "INIT,COLL" turns these on and the others off; with a ^ in front it is the reverse.
uint32_t ParseSubsystems(const char* text) {
  if (text == nullptr)
    return Bit(Subsystem::kInit) | Bit(Subsystem::kEnv);
  const bool inverted = *text == '^';
  uint32_t named = 0;
  const std::string list = text + (inverted ? 1 : 0);
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    constexpr std::pair<const char*, uint32_t> kNames[] = {
        {"INIT", Bit(Subsystem::kInit)},
        {"COLL", Bit(Subsystem::kColl)},
        {"ENV", Bit(Subsystem::kEnv)},
        {"REG", Bit(Subsystem::kReg)},
        {"ALL", ~0u}};
    for (const auto& [known, bits] : kNames)
      if (strcasecmp(name.c_str(), known) == 0)
        named |= bits;
    begin = end + 1;
  }
  return inverted ? ~named : named;
}

// REQUIRES: log_mutex held.
void ReadEnvironment() {
  DebugLevel read = ParseLevel(getenv("NCCL_DEBUG"));
  if (log_file != nullptr) {
    fclose(log_file);
    log_file = nullptr;
  }
  const char* pattern = getenv("NCCL_DEBUG_FILE");
  if (read > DebugLevel::kVersion && pattern != nullptr && *pattern != '\0') {
    const std::string name = ExpandFileName(pattern);
    log_file = fopen(name.c_str(), "we");
    if (log_file != nullptr)
      setlinebuf(log_file);
    else
      RawLog(kLibrary,
             "NCCL_DEBUG_FILE: cannot write %s (%s): the lines go to standard output",
             name.c_str(), strerror(errno));
  }
  shown.store(read >= DebugLevel::kInfo ? ParseSubsystems(getenv("NCCL_DEBUG_SUBSYS"))
                                        : 0);
  level.store(static_cast<int>(read), std::memory_order_release);
}

// REQUIRES: log_mutex held.
FILE* Output() {
  return log_file != nullptr ? log_file : stdout;
}

// The calling thread's, as cudaGetDevice says it.
int DeviceOfThread() {
  const VirtualGpuTable* const table = FindVirtualGpuTable();
  return table == nullptr || table->gpu == nullptr
             ? 0
             : std::max(table->gpu->CurrentDevice(), 0);
}

void WriteLine(const char* before, const char* middle, const char* message) {
  static thread_local const long thread = syscall(SYS_gettid);
  std::lock_guard lock(log_mutex);
  fprintf(Output(), "%s%s:%d:%ld %s%s\n", before, HostName().c_str(), getpid(), thread,
          middle, message);
}

}  // namespace

DebugLevel CurrentDebugLevel() {
  int known = level.load(std::memory_order_acquire);
  if (known == kUnread) {
    std::lock_guard lock(log_mutex);
    if (level.load(std::memory_order_relaxed) == kUnread)
      ReadEnvironment();
    known = level.load(std::memory_order_relaxed);
  }
  return static_cast<DebugLevel>(known);
}

void ResetDebugLog() {
  level.store(kUnread, std::memory_order_release);
}

void LogVersion(unsigned rank) {
  DebugLevel asked = CurrentDebugLevel();
  if (asked == DebugLevel::kNone || (rank != 0 && asked < DebugLevel::kInfo))
    return;
  std::lock_guard lock(log_mutex);
  if (std::exchange(version_is_written, true))
    return;
  fprintf(Output(), "NCCL version %d.%d.%d+cuda%d.%d\n", NCCL_MAJOR, NCCL_MINOR,
          NCCL_PATCH, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

void LogWarning(std::source_location where, const char* message) {
  if (CurrentDebugLevel() < DebugLevel::kWarn)
    return;
  // As in the source tree, from this library's folder on.
  constexpr std::string_view kFolder = "virtual_nccl/";
  std::string_view file = where.file_name();
  if (const size_t at = file.rfind(kFolder); at != std::string_view::npos)
    file.remove_prefix(at + kFolder.size());
  char middle[128];
  snprintf(middle, sizeof middle, "[%d] %.*s:%u NCCL WARN ", DeviceOfThread(),
           static_cast<int>(file.size()), file.data(), where.line());
  WriteLine("\n", middle, message);
}

bool IsLogged(Subsystem subsystem) {
  return CurrentDebugLevel() >= DebugLevel::kInfo &&
         (shown.load(std::memory_order_relaxed) & Bit(subsystem)) != 0;
}

void LogInfo(Subsystem subsystem, int device, const char* format, ...) {
  if (!IsLogged(subsystem))
    return;
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  char middle[32];
  snprintf(middle, sizeof middle, "[%d] NCCL INFO ", device);
  WriteLine("", middle, message);
}

}  // namespace vrank::nccl
