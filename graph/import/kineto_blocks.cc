#include "graph/import/kineto_blocks.h"

#include <rapidjson/reader.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "graph/import/inflated_file.h"
#include "graph/import/json_reading.h"
#include "graph/import/json_source.h"

namespace vrank::graph {
namespace {

// Around blocks, so that the parser is where the file's own beginning had brought it.
struct Brackets {
  std::string_view begin, end;
};
constexpr Brackets kMember = {R"({"traceEvents":[)", "]}"};
constexpr Brackets kList = {"[", "]"};
constexpr size_t kRoomBefore = kMember.begin.size();
constexpr size_t kRoomBehind = kMember.end.size() + 1;  // a zero, which ends the text

struct Block {
  std::unique_ptr<char[]> bytes;         // kRoomBefore, the text, kRoomBehind
  size_t begin = kRoomBefore, size = 0;  // of the text
  bool first = false, last = false;
  // What it holds, once `parsed`. `whole`: it is a document.
  bool parsed = false, whole = false;
  KinetoTrace trace;
  uint64_t root_members = 0;
  bool closed_events = false;

  char* text() { return bytes.get() + begin; }
};

void Parse(const Brackets& brackets, Block* block) {
  if (!block->first) {
    block->begin -= brackets.begin.size();
    block->size += brackets.begin.size();
    std::memcpy(block->text(), brackets.begin.data(), brackets.begin.size());
  }
  if (!block->last) {
    std::memcpy(block->text() + block->size, brackets.end.data(), brackets.end.size());
    block->size += brackets.end.size();
  }
  block->text()[block->size] = '\0';
  KinetoRows& rows = block->trace.rows;
  KinetoHandler handler(nullptr,
                        [&rows](const TraceEvent& event) { return rows.Add(event); });
  handler.header() = std::move(block->trace.header);
  // Recursive, which is faster; the handler refuses what is nested too deeply for it.
  constexpr unsigned kFlags = (kJsonFlags & ~unsigned{rapidjson::kParseIterativeFlag}) |
                              rapidjson::kParseInsituFlag;
  rapidjson::InsituStringStream text(block->text());
  rapidjson::Reader reader;
  const bool parsed = !reader.Parse<kFlags>(text, handler).IsError();
  // A zero within the text ends it early.
  block->whole = parsed && text.Tell() == block->size;
  block->trace.header = std::move(handler.header());
  block->trace.events = handler.events();
  block->root_members = handler.root_members();
  block->closed_events = handler.closed_events();
  block->bytes.reset();
}

// Parses blocks on threads of its own, or on the caller's where none can be started.
class BlockParsers {
 public:
  BlockParsers(const Brackets& brackets, size_t threads) : brackets_(brackets) {
    try {
      while (threads_.size() < threads)
        threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {  // a limit; those that there are suffice
    }
  }
  ~BlockParsers() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_)
      thread.join();
  }
  BlockParsers(const BlockParsers&) = delete;
  BlockParsers& operator=(const BlockParsers&) = delete;

  // `block` lives until it has been awaited or the parsers have been destroyed.
  void Start(Block* block) {
    if (threads_.empty()) {
      Parse(brackets_, block);
      block->parsed = true;
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(block);
    }
    changed_.notify_all();
  }
  void Await(const Block& block) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return block.parsed; });
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (closing_)
        return;
      Block* const block = queue_.front();
      queue_.pop_front();
      lock.unlock();
      Parse(brackets_, block);
      lock.lock();
      block->parsed = true;
      changed_.notify_all();
    }
  }

  const Brackets brackets_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block*> queue_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// The last "}, {" of a text, as the places behind the first bracket and at the second;
// nothing where there is none.
struct Cut {
  size_t end = 0, next = 0;
};
std::optional<Cut> FindCut(std::string_view text) {
  for (size_t next = text.rfind('{'); next != std::string_view::npos && next != 0;
       next = text.rfind('{', next - 1)) {
    size_t at = next;
    const auto pass = [&](char wanted) {
      while (at != 0 && IsSpace(text[at - 1]))
        --at;
      if (at == 0 || text[at - 1] != wanted)
        return false;
      --at;
      return true;
    };
    if (pass(',') && pass('}'))
      return Cut{at + 1, next};
  }
  return std::nullopt;
}

// Reads the file and cuts it.
class BlockReader {
 public:
  BlockReader(InflatedFile file, size_t block_bytes)
      : file_(std::move(file)), block_bytes_(block_bytes) {}

  // The next block; null behind the last one, and where the file does not come apart.
  std::unique_ptr<Block> Next() {
    if (ended_)
      return nullptr;
    auto block = std::make_unique<Block>();
    block->bytes = std::make_unique_for_overwrite<char[]>(kRoomBefore + block_bytes_ +
                                                          kRoomBehind);
    block->first = bytes_ == 0;
    std::copy(rest_.begin(), rest_.end(), block->text());
    const size_t wanted = block_bytes_ - rest_.size();
    const size_t read = file_.Read(block->text() + rest_.size(), wanted);
    bytes_ += read;
    block->size = rest_.size() + read;
    rest_.clear();
    if (block->first &&
        std::string_view(block->text(), block->size).substr(0, kByteOrderMark.size()) ==
            kByteOrderMark)
      std::fill_n(block->text(), kByteOrderMark.size(), ' ');
    if (read < wanted) {
      block->last = ended_ = true;
      return file_.problem().empty() ? std::move(block) : nullptr;
    }
    const std::string_view text(block->text(), block->size);
    const std::optional<Cut> cut = FindCut(text);
    if (!cut) {
      ended_ = true;
      return nullptr;
    }
    rest_.assign(text.substr(cut->next));
    block->size = cut->end;
    return block;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  InflatedFile file_;
  const size_t block_bytes_;
  uint64_t bytes_ = 0;
  std::string rest_;  // read, and behind the last cut
  bool ended_ = false;
};

size_t ThreadCount() {
  constexpr unsigned kMost = 8;  // more than one thread can read and cut for
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMost);
}

}  // namespace

std::optional<KinetoTrace> ReadKinetoInBlocks(const std::string& path,
                                              size_t block_bytes) {
  absl::StatusOr<InflatedFile> file = InflatedFile::Open(path);
  if (!file.ok())
    return std::nullopt;
  BlockReader reader(*std::move(file), block_bytes);
  std::unique_ptr<Block> next = reader.Next();
  if (next == nullptr || next->last)
    return std::nullopt;
  const char* const text = next->text();
  const char* const first = std::find_if_not(text, text + next->size, IsSpace);
  const Brackets& brackets = *first == '{' ? kMember : kList;
  const uint64_t members_of_brackets = *first == '{' ? 1 : 0;

  const size_t threads = ThreadCount();
  KinetoTrace all;
  std::deque<std::unique_ptr<Block>> in_flight;
  BlockParsers parsers(brackets, threads);
  const auto take = [&] {
    const std::unique_ptr<Block> block = std::move(in_flight.front());
    in_flight.pop_front();
    parsers.Await(*block);
    if (!block->whole)
      return false;
    if (block->first) {
      all = std::move(block->trace);
      return block->closed_events;  // by the bracket behind the block
    }
    all.events += block->trace.events;
    return block->root_members == members_of_brackets &&
           all.rows.Append(&block->trace.rows);
  };
  for (; next != nullptr && !next->last; next = reader.Next()) {
    in_flight.push_back(std::move(next));
    parsers.Start(in_flight.back().get());
    if (in_flight.size() > threads + 1 && !take())
      return std::nullopt;
  }
  while (!in_flight.empty())
    if (!take())
      return std::nullopt;
  if (next == nullptr)
    return std::nullopt;
  // What follows the events adds to what precedes them.
  next->trace.header = std::move(all.header);
  Parse(brackets, next.get());
  if (!next->whole || !all.rows.Append(&next->trace.rows))
    return std::nullopt;
  all.header = std::move(next->trace.header);
  all.events += next->trace.events;
  all.bytes = reader.bytes();
  return all;
}

}  // namespace vrank::graph
