// What a record of the trace costs the thread that has something to say.
//
// The file is a real one in the current folder; the writer's thread works beside the
// threads that are measured. Where the disk is slower than the benchmark, records are
// dropped: the counter `dropped` says how many of them, and a figure counts only where
// it is 0.

#include <unistd.h>

#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "tracer/record/trace_writer.h"

namespace vrank::tracer {
namespace {

constexpr char kFile[] = "trace_writer_bench.vtrace";
std::unique_ptr<TraceWriter> writer;

void OpenWriter(const benchmark::State&) {
  unlink(kFile);
  writer = std::make_unique<TraceWriter>();
  if (writer->Open(kFile) != TraceWriter::OpenResult::kOpen)
    perror(kFile);
}

void CloseWriter(const benchmark::State&) {
  writer->Finish(0);
  writer.reset();
  unlink(kFile);
}

// A record of the size of most: a call.
void AppendCall(benchmark::State& state) {
  trace::Call call{};
  call.record.kind = trace::Kind::kCall;
  for (auto _ : state) {
    ++call.correlation;
    writer->Append(trace::Source::kProgram, call);
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["dropped"] = static_cast<double>(writer->dropped());
}
BENCHMARK(AppendCall)
    ->Setup(OpenWriter)
    ->Teardown(CloseWriter)
    ->Iterations(1'000'000)
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();

// A kernel with its name, as the decoder writes it.
void AppendKernelWithName(benchmark::State& state) {
  const std::string name =
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
      "St5arrayIPcLm3EEEEviT0_T1_";
  trace::Work work{};
  work.record.kind = trace::Kind::kWork;
  for (auto _ : state) {
    ++work.correlation;
    work.name = writer->Name(name);
    writer->Append(trace::Source::kCupti, work);
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["dropped"] = static_cast<double>(writer->dropped());
}
BENCHMARK(AppendKernelWithName)
    ->Setup(OpenWriter)
    ->Teardown(CloseWriter)
    ->Iterations(500'000)
    ->UseRealTime();

}  // namespace
}  // namespace vrank::tracer

BENCHMARK_MAIN();
