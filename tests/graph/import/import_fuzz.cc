#include "tests/graph/import/import_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "graph/file/op_check.h"
#include "graph/import/execution_trace.h"
#include "graph/import/kineto_import.h"
#include "graph/import/kineto_reader.h"
#include "tests/graph/import/recording_text.h"

namespace vrank::graph {
namespace {

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

// A file that lives in memory.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& text) : file_(memfd_create("fuzz", 0)) {
    if (file_ < 0 ||
        write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      Fail("no memory file");
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  const int file_;
};

class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool more() const { return at_ != end_; }
  uint32_t Below(uint32_t limit) { return more() ? *at_++ % limit : 0; }
  template <size_t N>
  const char* Of(const char* const (&texts)[N]) {
    return texts[Below(N)];
  }
  // Mostly small, now and then huge.
  std::string Number() {
    const uint32_t kind = Below(16);
    if (kind == 15)
      return Of({"-1", "4294967295", "9223372036854775807", "1e300", "3999999999999999",
                 "-9223372036854775808", "0.0001", "2592000000000"});
    return std::to_string(Below(kind < 8 ? 4 : 64));
  }

 private:
  const uint8_t* at_;
  const uint8_t* const end_;
};

void AddArgument(Choices* choices, std::string* text) {
  switch (choices->Below(9)) {
    case 0:
    case 1:
    case 2:
      *text += std::string("\"") +
               choices->Of({"correlation", "stream", "device", "wait_on_stream",
                            "wait_on_cuda_event_record_corr_id", "In msg nelems",
                            "Out msg nelems", "Group size", "Global rank start",
                            "Global rank stride"}) +
               "\": " + choices->Number();
      return;
    case 3:
      *text += std::string("\"cuda_sync_kind\": \"") +
               choices->Of({"Stream Sync", "Context Sync", "Event Sync",
                            "Stream Wait Event", "Other"}) +
               "\"";
      return;
    case 4:
      *text += std::string("\"Collective name\": \"") +
               choices->Of({"allreduce", "all_to_all", "_allgather_base", "send",
                            "wait", "broadcast", "reduce_scatter", "x"}) +
               "\"";
      return;
    case 5:
      *text +=
          std::string("\"Process Group Ranks\": \"") +
          choices->Of({"[0]", "[0, 1]", "[1, 0]", "[0, ...]", "[7]", "[0, 0]", ""}) +
          "\"";
      return;
    case 6:
      *text += "\"Input Dims\": [[" + choices->Number() + ", " + choices->Number() +
               "], []]";
      return;
    case 7:
      *text += "\"Input type\": [\"float\", 3]";
      return;
    default:
      *text += "\"dtype\": \"Float\"";
  }
}

void AddEvent(Choices* choices, std::string* text) {
  *text += "{\"ph\": \"X\", \"cat\": \"";
  *text += choices->Of({"cuda_runtime", "kernel", "cpu_op", "user_annotation",
                        "cuda_sync", "gpu_memcpy", "gpu_memset", "cuda_driver", "new"});
  *text += "\", \"name\": \"";
  *text += choices->Of(
      {"cudaLaunchKernel", "ncclDevKernel_AllReduce(x)", "record_param_comms",
       "cudaStreamWaitEvent", "cudaStreamSynchronize", "cudaDeviceSynchronize",
       "cudaEventSynchronize", "cudaEventRecord", "nccl:all_reduce", "ProfilerStep#1",
       "cudaFree", "cudaMemcpyAsync", "ncclKernel_SendRecv(x)"});
  *text += "\", \"pid\": " + choices->Number() + ", \"tid\": " + choices->Number() +
           ", \"ts\": " + choices->Number() + ", \"dur\": " + choices->Number() +
           ", \"args\": {";
  const uint32_t arguments = choices->Below(6);
  for (uint32_t i = 0; i < arguments; ++i) {
    AddArgument(choices, text);
    *text += i + 1 < arguments ? ", " : "";
  }
  *text += "}}";
}

std::string ProfileFrom(Choices choices) {
  std::string text = "{\"distributedInfo\": {\"rank\": " + choices.Number() +
                     ", \"world_size\": " + choices.Number() +
                     "}, \"baseTimeNanoseconds\": " + choices.Number() +
                     ", \"traceEvents\": [";
  while (choices.more()) {
    AddEvent(&choices, &text);
    text += choices.more() ? ",\n" : "";
  }
  return text + "]}";
}

void CheckError(const absl::Status& status, const std::string& path) {
  if (status.ToString().find(path) == std::string::npos)
    Fail("an error does not name its file: " + status.ToString());
}

}  // namespace

void FuzzImport(const uint8_t* data, size_t size) {
  if (size == 0)
    return;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const MemoryFile file(data[0] % 3 == 2 ? ProfileFrom({data + 1, size - 1}) : rest);
  if (data[0] % 3 == 1) {
    const auto trace = ReadExecutionTrace(file.path());
    if (!trace.ok())
      CheckError(trace.status(), file.path());
    return;
  }
  constexpr size_t kBlock = 400;
  const std::string streamed = RecordingText(ReadKineto(file.path()));
  if (const std::string in_blocks = RecordingText(ReadKineto(file.path(), kBlock));
      in_blocks != streamed)
    Fail("in blocks it reads\n" + in_blocks + "and as a stream\n" + streamed);
  const auto import = ImportKineto({{file.path()}, {}});
  if (!import.ok()) {
    CheckError(import.status(), file.path());
    return;
  }
  for (const auto& program : import->graph.programs) {
    std::vector<Op> ops;
    for (uint64_t i = 0; i < program->size(); ++i)
      ops.push_back(program->op(i));
    if (const auto sound = CheckOps(ops, program->details()); !sound.ok())
      Fail(sound.status().ToString());
  }
}

}  // namespace vrank::graph
