#include "virtual_gpu/core/launch_interpreter.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/guest/log_levels.h"
#include "base/guest/raw_log.h"
#include "virtual_gpu/code/interpreter.h"
#include "virtual_gpu/code/lanes.h"
#include "virtual_gpu/core/deferred_launch.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {
namespace {

// Instructions, summed over threads; sorts run at 190 million a second (of one core of
// a 2-core virtual machine). A process may interpret `at_once`, and gets `back` with
// each launch of any kernel: what an iteration computes is computed in all of them,
// however long the program runs.
struct Budget {
  uint64_t per_launch, at_once, back;
};
// By LaunchInterpreter::Data. CUB's sort of 10,000 64-bit keys takes 36 million in one
// launch.
constexpr Budget kBudgets[] = {{48'000'000, 300'000'000, 40'000},
                               {16'000'000, 64'000'000, 4'000}};
// ... for assertions alone.
constexpr Budget kAssertionBudget = {1'000'000, 20'000'000, 500};
// A kernel that was too long so often in a row is tried again after twice as many
// launches each time.
constexpr uint32_t kMostDoublings = 16;
// Shapes that a kernel keeps as too long.
constexpr size_t kMostShapes = 64;
// A thread that does anything takes this many.
constexpr uint64_t kLeastPerThread = 8;
// A launch takes 32,764 bytes since CUDA 12.1 (NVIDIA, "CUDA 12.1 Supports Large
// Kernel Parameters"); PyTorch 2.15 passes lists of tensors that long.
constexpr uint32_t kMostParameterBytes = 32768;
// Of KernelComputation::unknown_input_at: no parameter has it, and none is looked for.
constexpr int32_t kNowhere = -2;
// As Interpret says it.
constexpr char kUnknownInput[] = "unknown: its input";
// What stands for input without a writer, by Origin::Kind: only their addresses count.
constexpr char kKeys[8] = {};

// The parameters as the kernel's constant bank has them. False where some are missing.
bool LayOut(const KernelLaunch& launch, uint32_t bytes, unsigned char* to) {
  const KernelSignature& signature = launch.kernel->signature;
  if (!signature.complete || signature.known != signature.count ||
      signature.bytes > bytes)
    return false;
  std::memset(to, 0, bytes);
  for (uint32_t i = 0; i < signature.count; ++i) {
    const unsigned char* const at = ArgumentAt(launch, i);
    if (at == nullptr)
      return false;
    std::memcpy(to + signature.parameters[i].offset, at, signature.parameters[i].size);
  }
  return true;
}

// Whether the parameters have a word at `offset`, and which.
bool WordAt(const KernelLaunch& launch, uint32_t offset, uint64_t* word) {
  const KernelSignature& signature = launch.kernel->signature;
  for (uint32_t i = 0; i < signature.known; ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    if (offset < parameter.offset ||
        offset + sizeof *word > parameter.offset + uint64_t{parameter.size})
      continue;
    const unsigned char* const at = ArgumentAt(launch, i);
    if (at == nullptr)
      return false;
    std::memcpy(word, at + (offset - parameter.offset), sizeof *word);
    return true;
  }
  return false;
}

// Of the launch and of its parameters, less the addresses of its memory: launches of
// one kernel with equal shapes take about as many instructions.
uint64_t ShapeOf(const KernelLaunch& launch, const Contents& contents,
                 const unsigned char* parameters, uint32_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, by words
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  for (int i = 0; i < 3; ++i) {
    add(launch.grid[i]);
    add(launch.block[i]);
  }
  for (uint32_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, parameters + at, std::min<size_t>(sizeof word, bytes - at));
    add(contents.DeviceOf(word) >= 0 ? 0 : word);
  }
  return hash;
}

std::string ReasonOf(const Outcome& outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::kDone:
      return "";
    case Outcome::Kind::kNotInterpreted:
      return "not interpreted: " + outcome.what;
    case Outcome::Kind::kUnknown:
      return "unknown: " + outcome.what;
    case Outcome::Kind::kBudget:
      return "budget: " + outcome.what;
    case Outcome::Kind::kAssertion:
      return "not computed: an assertion in it failed";
    case Outcome::Kind::kFault:
      return "not computed: " + outcome.what;
  }
  return "";
}

// For VRANK_LOG: of launches that count as failed at level 1, of others at level 2.
void Log(const char* kernel, const Outcome& outcome) {
  const bool done = outcome.kind == Outcome::Kind::kDone;
  const auto values = static_cast<size_t>(LogModule::values);
  if (EnvironmentLogLevels()[values] < (done ? 2 : 1))
    return;
  const std::string reason = done ? "computed" : ReasonOf(outcome);
  RawLog("values", "%s, %llu thread instructions: %s", reason.c_str(),
         static_cast<unsigned long long>(outcome.thread_instructions), kernel);
}

}  // namespace

bool LaunchInterpreter::Considers(const KernelLaunch& launch) {
  for (size_t i = 0; i < std::size(computed_); ++i)
    computed_[i] -= std::min(kBudgets[i].back, computed_[i]);
  checked_ -= std::min(kAssertionBudget.back, checked_);
  KernelComputation& how = launch.kernel->computation;
  if (how.never || (how.code == nullptr && !how.read))
    return false;
  const uint64_t threads = ThreadsOf(launch);
  if (threads > how.tried[0].most_threads && threads > how.tried[1].most_threads) {
    how.writer = how.tried[0].writer;
    return false;
  }
  // Before anything is copied: most launches of a job end here.
  uint64_t input = 0;
  if (how.unknown_input_at < 0 ||
      !WordAt(launch, static_cast<uint32_t>(how.unknown_input_at), &input) ||
      contents_.DeviceOf(input) < 0)
    return true;
  const char* key = "";
  if (contents_.IsValid(input, 1)) {
    const Origin& origin = contents_.OriginOf(input);
    if (origin.exists() || IsAwaited(origin))
      return true;
    key = *origin.writer != '\0' ? origin.writer
                                 : &kKeys[static_cast<size_t>(origin.kind)];
  }
  const auto [writer, is_new] = how.writers_by_input.try_emplace(key);
  if (is_new)
    writer->second =
        contents_.NameWriter(launch.kernel->name.c_str(), kUnknownInput, input);
  how.writer = writer->second;
  if (how.asserted.pause != 0) {
    --how.asserted.pause;
    return false;
  }
  return ChecksAssertions(how, threads);
}

bool LaunchInterpreter::ChecksAssertions(const KernelComputation& how,
                                         uint64_t threads) const {
  const uint64_t left =
      kAssertionBudget.at_once - std::min(checked_, kAssertionBudget.at_once);
  return how.checks_assertions && threads <= how.asserted.most_threads &&
         threads * kLeastPerThread <= std::min(kAssertionBudget.per_launch, left);
}

void LaunchInterpreter::CheckAssertions(InterpretedLaunch launch,
                                        KernelComputation& how, uint64_t threads) {
  KernelComputation::Tried& tried = how.asserted;
  if (!ChecksAssertions(how, threads))
    return;
  launch.needs_known_input = false;
  launch.most_thread_instructions =
      std::min(kAssertionBudget.per_launch, kAssertionBudget.at_once - checked_);
  LaunchMemory device(&contents_, &obligations_);
  OverlayMemory memory(&device);
  const int64_t began_ns = channel_->ThreadCpuNs();
  const Outcome outcome = Interpret(*how.code, launch, &memory);
  channel_->NoteGpuWork(channel_->ThreadCpuNs() - began_ns);
  checked_ += outcome.thread_instructions;
  if (outcome.kind == Outcome::Kind::kAssertion && memory.made_up_address() == 0)
    assertion_ = outcome.what;
  if (outcome.kind == Outcome::Kind::kBudget &&
      launch.most_thread_instructions == kAssertionBudget.per_launch)
    tried.most_threads = threads - 1;
  // Unknown bits may decide what comes after the assertions.
  const bool ends =
      outcome.kind == Outcome::Kind::kDone || outcome.kind == Outcome::Kind::kUnknown;
  tried.failures = ends ? 0 : std::min(tried.failures + 1, kMostDoublings);
  tried.pause = ends ? 0 : 1u << tried.failures;
}

// The nearest address before what was unknown, among the words that the kernel uses.
// Structures have unused parts, in which old addresses stand: a word is used if the
// launch takes another way without it.
int32_t LaunchInterpreter::FindInput(const InterpretedLaunch& launch,
                                     KernelComputation& how, uint64_t unknown_address,
                                     uint64_t* computed) {
  constexpr size_t kMostTries = 4;
  struct Word {
    uint64_t address;
    uint32_t at;
  };
  std::vector<Word> words;
  for (uint32_t at = 0; at + sizeof(uint64_t) <= launch.parameter_bytes;
       at += sizeof(uint64_t)) {
    uint64_t address;
    std::memcpy(&address, launch.parameters + at, sizeof address);
    if (address <= unknown_address && contents_.DeviceOf(address) >= 0)
      words.push_back({address, at});
  }
  // Where it was last time comes before others with the same address.
  const auto place = [&](const Word& word) {
    return word.at == static_cast<uint32_t>(how.unknown_input_at) ? 0 : word.at + 1;
  };
  std::sort(words.begin(), words.end(), [&](const Word& a, const Word& b) {
    return a.address != b.address ? a.address > b.address : place(a) < place(b);
  });
  unsigned char parameters[kMostParameterBytes];
  std::memcpy(parameters, launch.parameters, launch.parameter_bytes);
  InterpretedLaunch without = launch;
  without.parameters = parameters;
  for (size_t i = 0; i < std::min(words.size(), kMostTries); ++i) {
    if (place(words[i]) == 0)
      return how.unknown_input_at;
    std::memset(parameters + words[i].at, 0, sizeof(uint64_t));
    LaunchMemory device(&contents_, &obligations_);
    OverlayMemory memory(&device);
    const int64_t began_ns = channel_->ThreadCpuNs();
    const Outcome outcome = Interpret(*how.code, without, &memory);
    channel_->NoteGpuWork(channel_->ThreadCpuNs() - began_ns);
    *computed += outcome.thread_instructions;
    if (memory.unknown_address() != unknown_address)
      return static_cast<int32_t>(words[i].at);
    std::memcpy(parameters + words[i].at, &words[i].address, sizeof(uint64_t));
  }
  return kNowhere;
}

bool LaunchInterpreter::Run(const KernelLaunch& launch, uint64_t data_bytes,
                            const char** made_up_by) {
  *made_up_by = nullptr;
  const Data data = data_bytes < kMuchBytes ? kLittle : kMuch;
  const Budget& budget = kBudgets[data];
  KernelComputation& how = launch.kernel->computation;
  KernelComputation::Tried& tried = how.tried[data];
  const uint64_t threads = ThreadsOf(launch);
  const char* const name = launch.kernel->name.c_str();
  how.writer = tried.writer;
  if (threads > tried.most_threads)
    return false;
  if (tried.pause != 0) {
    --tried.pause;
    return false;
  }
  const auto lose = [&](const Outcome& outcome) {
    Log(name, outcome);
    how.writer = contents_.NameWriter(name, ReasonOf(outcome));
    if (outcome.kind == Outcome::Kind::kBudget)
      tried.writer = how.writer;
    return false;
  };
  if (threads * kLeastPerThread > budget.per_launch) {
    tried.most_threads = threads - 1;
    tried.too_long.clear();
    return lose({Outcome::Kind::kBudget, "too many threads for a launch"});
  }
  const uint64_t left = budget.at_once - std::min(computed_[data], budget.at_once);
  if (left < threads * kLeastPerThread)
    return lose({Outcome::Kind::kBudget, "all that a process may compute"});
  if (launch.cooperative || Product(launch.cluster) > 1) {
    how.never = true;
    return lose({Outcome::Kind::kNotInterpreted, "blocks that work together"});
  }
  if (how.code == nullptr) {
    how.code = std::exchange(how.read, nullptr)();
    if (how.code == nullptr) {
      how.never = true;
      return lose({Outcome::Kind::kNotInterpreted, "code for this GPU"});
    }
  }
  unsigned char parameters[kMostParameterBytes];
  if (how.code->parameter_bytes > sizeof parameters ||
      !LayOut(launch, how.code->parameter_bytes, parameters))
    return lose({Outcome::Kind::kNotInterpreted, "what its parameters are"});
  const auto shape = [&] {
    return ShapeOf(launch, contents_, parameters, how.code->parameter_bytes);
  };
  if (threads == tried.most_threads &&
      (tried.too_long.size() >= kMostShapes || tried.too_long.contains(shape())))
    return false;
  LaunchMemory device(&contents_, &obligations_);
  OverlayMemory memory(&device);
  InterpretedLaunch run;
  std::copy_n(launch.grid, 3, run.grid);
  std::copy_n(launch.block, 3, run.block);
  run.dynamic_shared = static_cast<uint32_t>(launch.shared_bytes);
  run.parameters = parameters;
  run.parameter_bytes = how.code->parameter_bytes;
  run.most_thread_instructions = std::min(budget.per_launch, left);
  run.needs_known_input = true;
  const int64_t began_ns = channel_->ThreadCpuNs();
  const Outcome outcome = Interpret(*how.code, run, &memory);
  channel_->NoteGpuWork(channel_->ThreadCpuNs() - began_ns);
  computed_[data] += outcome.thread_instructions;
  switch (outcome.kind) {
    case Outcome::Kind::kDone:
      Log(name, outcome);
      tried.failures = 0;
      break;
    case Outcome::Kind::kNotInterpreted:
      how.never = true;
      return lose(outcome);
    case Outcome::Kind::kBudget:
      if (run.most_thread_instructions == budget.per_launch) {
        if (threads < tried.most_threads)
          tried.too_long.clear();
        tried.most_threads = threads;
        tried.too_long.insert(shape());
      }
      // Sizes in which each launch differs (a random generator's offset) make a shape
      // of their own.
      tried.pause = 1u << std::min(tried.failures++, kMostDoublings);
      return lose(outcome);
    case Outcome::Kind::kAssertion:
      // What is made up may be what a GPU never has.
      if (memory.made_up_address() == 0)
        assertion_ = outcome.what;
      return lose(outcome);
    case Outcome::Kind::kUnknown:
    case Outcome::Kind::kFault:
      Log(name, outcome);
      // It need not run longer to take the same way.
      run.most_thread_instructions = outcome.thread_instructions + kLanes;
      if (memory.read_unknown() && how.unknown_input_at != kNowhere)
        how.unknown_input_at =
            FindInput(run, how, memory.unknown_address(), &computed_[data]);
      // An index is read before what it stands for.
      if (how.code->asserts && memory.read_unknown() && memory.read_known()) {
        how.checks_assertions = true;
        CheckAssertions(run, how, threads);
      }
      how.writer = contents_.NameWriter(
          name, ReasonOf(outcome),
          memory.read_unknown() ? memory.unknown_address() : memory.awaited_address());
      return false;
  }
  const std::vector<OverlayMemory::Run> written = memory.Written();
  std::shared_ptr<PendingValue> later;
  if (memory.awaited_address() != 0 &&
      std::any_of(written.begin(), written.end(),
                  [](const OverlayMemory::Run& run) { return !run.known; })) {
    later = Defer({how, run, device, outcome.thread_instructions, written}, channel_,
                  contents_);
    if (later == nullptr) {
      how.writer = contents_.NameWriter(name, kUnknownInput, memory.awaited_address());
      return false;
    }
  }
  if (memory.made_up_address() != 0)
    *made_up_by =
        contents_.NameMadeUp(name, contents_.OriginOf(memory.made_up_address()).writer);
  how.writer = contents_.NameWriter(name, "unknown: its result");
  const char* const mark = *made_up_by != nullptr ? *made_up_by : "";
  uint64_t offset = 0;  // in `later`
  for (const OverlayMemory::Run& each : written) {
    const uint64_t bytes = each.bytes.size();
    if (!each.known && later != nullptr)
      contents_.Write(
          each.address, bytes,
          Origin::Pending(later, std::exchange(offset, offset + bytes), mark));
    else if (!each.known ||
             !contents_.StoreBytes(each.address, each.bytes.data(), bytes, mark))
      contents_.Write(each.address, bytes, Origin::Computed(how.writer));
  }
  return true;
}

}  // namespace vrank::gpu
