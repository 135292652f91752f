// Writes mark origins, reads follow them.

#include "virtual_gpu/core/contents.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace vrank::gpu {
namespace {

// The same fill seen from another address.
uint32_t Rotate(uint32_t pattern, uint64_t from, uint64_t to) {
  const unsigned shift = static_cast<unsigned>((from - to) % 4 * 8);
  return shift == 0 ? pattern : pattern >> shift | pattern << (32 - shift);
}

// Between a reason and the kernel that it comes from.
constexpr char kFrom[] = ", from ";

}  // namespace

void FillBytes(uint32_t pattern, uint64_t address, unsigned char* to, uint64_t bytes) {
  const auto low = static_cast<unsigned char>(pattern);
  if (pattern == low * 0x01010101u) {
    std::memset(to, low, bytes);
    return;
  }
  for (uint64_t i = 0; i < bytes; ++i)
    to[i] = static_cast<unsigned char>(pattern >> (address + i) % 4 * 8);
}

bool CopyKnown(const ContentRun& run, uint64_t from, unsigned char* to) {
  const uint64_t length = run.end - run.begin;
  if (run.origin.kind == Origin::Kind::kBytes)
    std::memcpy(to, reinterpret_cast<const void*>(from + run.begin), length);
  else if (run.origin.kind == Origin::Kind::kFill)
    FillBytes(run.origin.pattern, from + run.begin, to, length);
  else
    return false;
  return true;
}

void Contents::AddDevice(std::unique_ptr<DeviceMemory> memory) {
  memories_.push_back(std::move(memory));
}

int Contents::DeviceOf(uint64_t address) const {
  const uint64_t device = (address - kDeviceBase) / kDeviceSpan;
  return address >= kDeviceBase && device < memories_.size() ? static_cast<int>(device)
                                                             : -1;
}

Allocation* Contents::Find(uint64_t address) {
  const int device = DeviceOf(address);
  return device < 0 ? nullptr : memory(device).Find(address);
}

void Contents::Begin(Allocation* allocation) {
  allocation->contents = ContentMap(sequence_);
  allocation->split = Allocation::Split::kNone;
  blocks_.erase(blocks_.lower_bound(allocation->base),
                blocks_.lower_bound(allocation->base + allocation->bytes));
}

void Contents::SetBlock(uint64_t address, int64_t bytes) {
  if (bytes <= 0) {
    blocks_.erase(address);
    return;
  }
  const uint64_t end = address + static_cast<uint64_t>(bytes);
  Allocation* const allocation = Find(address);
  if (allocation == nullptr)
    return;
  if (!IsValid(address, end - address)) {
    allocation->split = Allocation::Split::kAlsoOthers;
    return;
  }
  if (allocation->split == Allocation::Split::kNone)
    allocation->split = Allocation::Split::kBlocks;
  // One that was never given back and overlaps is gone.
  auto from = blocks_.lower_bound(address);
  if (from != blocks_.begin() && std::prev(from)->second > address)
    --from;
  blocks_.erase(from, blocks_.lower_bound(end));
  blocks_.emplace(address, end);
}

std::map<uint64_t, uint64_t>::const_iterator Contents::BlockOf(uint64_t address) const {
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin() || std::prev(after)->second <= address)
    return blocks_.end();
  return std::prev(after);
}

uint64_t Contents::ReachEnd(uint64_t address) {
  if (const auto block = BlockOf(address); block != blocks_.end())
    return block->second;
  const Allocation* const allocation = Find(address);
  return allocation == nullptr || allocation->split == Allocation::Split::kBlocks
             ? 0
             : EndOf(address);
}

uint64_t Contents::ReachBegin(uint64_t address) {
  if (const auto block = BlockOf(address); block != blocks_.end())
    return block->first;
  const Allocation* const allocation = Find(address);
  return allocation == nullptr || allocation->split == Allocation::Split::kBlocks
             ? address
             : allocation->base;
}

uint64_t Contents::EndOf(uint64_t address) {
  const Allocation* allocation = Find(address);
  return allocation == nullptr ? 0
                               : memory(DeviceOf(address)).EndOf(*allocation, address);
}

bool Contents::IsValid(uint64_t address, uint64_t bytes) {
  const Allocation* allocation = Find(address);
  return allocation != nullptr &&
         memory(DeviceOf(address)).Holds(*allocation, address, bytes);
}

bool Contents::IsKnown(uint64_t address, uint64_t bytes) {
  if (!IsValid(address, bytes))
    return false;
  for (const ContentRun& run : Runs(address, bytes))
    if (run.origin.kind == Origin::Kind::kUnwritten ||
        run.origin.kind == Origin::Kind::kComputed)
      return false;
  return true;
}

const Origin& Contents::OriginOf(uint64_t address) {
  const Allocation* allocation = Find(address);
  const uint64_t at = address - allocation->base;
  // Asked at most launches: the vector keeps its memory.
  one_run_.clear();
  allocation->contents.Read(at, at + 1, blind_, &one_run_);
  return one_run_.front().origin;
}

bool Contents::ReadKnown(uint64_t from, uint64_t bytes, unsigned char* to,
                         const char** made_up_by) {
  if (!IsValid(from, bytes))
    return false;
  bool any_made_up = false;
  for (const ContentRun& run : Runs(from, bytes)) {
    if (!CopyKnown(run, from, to + run.begin))
      return false;
    if (made_up_by != nullptr && run.origin.made_up() &&
        !std::exchange(any_made_up, true))
      *made_up_by = run.origin.writer;
  }
  return true;
}

void Contents::WriteHere(uint64_t to, uint64_t bytes, const Origin& origin) {
  if (bytes == 0)
    return;
  Allocation* allocation = Find(to);
  const uint64_t begin = to - allocation->base;
  allocation->contents.Write(begin, begin + bytes, origin, ++sequence_);
}

void Contents::Write(uint64_t to, uint64_t bytes, const Origin& origin) {
  WriteHere(to, bytes, origin);
  Mirror(to, bytes);
}

bool Contents::StoreBytes(uint64_t to, const void* from, uint64_t bytes,
                          const char* made_up_by) {
  unsigned char* place = memory(DeviceOf(to)).Open(to, bytes);
  if (place == nullptr)
    return false;
  std::memcpy(place, from, bytes);
  WriteHere(to, bytes, Origin::Bytes(made_up_by));
  return Mirror(to, bytes);
}

bool Contents::CopyHere(uint64_t to, uint64_t from, uint64_t bytes) {
  for (const ContentRun& run : Runs(from, bytes)) {
    const uint64_t length = run.end - run.begin;
    if (run.origin.kind == Origin::Kind::kBytes) {
      unsigned char* source = memory(DeviceOf(from)).Open(from + run.begin, length);
      unsigned char* place = memory(DeviceOf(to)).Open(to + run.begin, length);
      if (source == nullptr || place == nullptr)
        return false;
      std::memmove(place, source, length);
    }
    Origin origin = run.origin;
    origin.own = false;  // it may be part of something larger there
    if (origin.kind == Origin::Kind::kFill)
      origin.pattern = Rotate(origin.pattern, from, to);
    WriteHere(to + run.begin, length, origin);
  }
  return true;
}

bool Contents::CopyWithin(uint64_t to, uint64_t from, uint64_t bytes) {
  return CopyHere(to, from, bytes) && Mirror(to, bytes);
}

void Contents::WriteInReach(uint64_t address, const char* writer) {
  Allocation* const allocation = Find(address);
  if (allocation == nullptr)
    return;
  const auto block = BlockOf(address);
  if (block == blocks_.end()) {
    if (allocation->split != Allocation::Split::kBlocks)
      WriteFrom(address, writer);
    return;
  }
  allocation->contents.WriteWithin(address - allocation->base,
                                   block->second - allocation->base, writer,
                                   ++sequence_);
  Mirror(address, block->second - address);
}

void Contents::WriteFrom(uint64_t address, const char* writer) {
  Allocation* allocation = Find(address);
  if (allocation == nullptr)
    return;
  allocation->contents.WriteFrom(address - allocation->base, writer, ++sequence_);
  Mirror(address, allocation->base + allocation->bytes - address);
}

void Contents::MakeUp(uint64_t address, uint64_t bytes, const char* writer) {
  for (const ContentRun& run : Runs(address, bytes)) {
    if (run.origin.kind == Origin::Kind::kUnwritten ||
        run.origin.kind == Origin::Kind::kComputed || run.origin.made_up())
      continue;
    Origin origin = run.origin;
    origin.writer = writer;
    WriteHere(address + run.begin, run.end - run.begin, origin);
  }
  Mirror(address, bytes);
}

bool Contents::Join(uint64_t first, uint64_t second, uint64_t bytes) {
  aliases_.push_back({first, second, bytes});
  aliases_.push_back({second, first, bytes});
  return CopyHere(second, first, bytes);
}

void Contents::Part(uint64_t address) {
  std::erase_if(aliases_, [&](const Alias& alias) {
    return alias.begin == address || alias.twin == address;
  });
}

bool Contents::Mirror(uint64_t address, uint64_t bytes) {
  bool copied = true;
  for (const Alias& alias : aliases_) {
    const uint64_t begin = std::max(address, alias.begin);
    const uint64_t end = std::min(address + bytes, alias.begin + alias.bytes);
    if (begin < end)
      copied &= CopyHere(alias.twin + (begin - alias.begin), begin, end - begin);
  }
  return copied;
}

std::vector<ContentRun> Contents::Runs(uint64_t from, uint64_t bytes) {
  std::vector<ContentRun> runs;
  if (bytes == 0)
    return runs;
  Allocation* allocation = Find(from);
  const uint64_t begin = from - allocation->base;
  allocation->contents.Read(begin, begin + bytes, blind_, &runs);
  for (ContentRun& run : runs) {
    run.begin -= begin;
    run.end -= begin;
  }
  return runs;
}

void Contents::Deliver(uint64_t from, uint64_t bytes, unsigned char* to,
                       std::vector<Landing>* landings) {
  const char* unknown = "";
  for (const ContentRun& run : Runs(from, bytes)) {
    unsigned char* place = to + run.begin;
    const uint64_t length = run.end - run.begin;
    if (*unknown == '\0')
      unknown = run.origin.writer;
    if (run.origin.made_up())
      CountRead(run.origin.writer, length);
    switch (run.origin.kind) {
      case Origin::Kind::kBytes:
      case Origin::Kind::kFill:
        CopyKnown(run, from, place);
        break;
      case Origin::Kind::kUnwritten:
        std::memset(place, 0, length);
        channel_->Count(LossId::kUnwrittenToHost, length);
        break;
      case Origin::Kind::kComputed:
        WriteComputed(run.origin, place, length);
        break;
      case Origin::Kind::kResult:
      case Origin::Kind::kPending:
        landings->push_back(
            {run.origin.key, run.origin.offset, length, place, run.origin.pending});
        break;
    }
  }
  if (*unknown == '\0')
    return;
  if (const NumberRead read = ClassifyRead(unknown, bytes); read != NumberRead::kOther)
    numbers_read_.emplace_back(read, unknown);
}

const char* Contents::Gather(uint64_t from, uint64_t bytes, unsigned char* to,
                             std::vector<Landing>* landings) {
  const char* made_up_by = "";
  for (const ContentRun& run : Runs(from, bytes)) {
    if (run.origin.made_up() && *made_up_by == '\0')
      made_up_by = run.origin.writer;
    if (!CopyKnown(run, from, to + run.begin))
      landings->push_back({run.origin.key, run.origin.offset, run.end - run.begin,
                           to + run.begin, run.origin.pending});
  }
  return made_up_by;
}

void Contents::ShowComputed(const Origin& origin, unsigned char* to,
                            uint64_t bytes) const {
  if (policy_ && policy_(origin.writer, to, bytes))
    return;
  std::memset(to, 0, bytes);
  for (uint64_t i = 0; origin.element_bytes != 0 && i < bytes; ++i)
    to[i] = static_cast<unsigned char>(
        origin.value >> 8 * ((origin.offset + i) % origin.element_bytes));
}

Origin Contents::AssumeCondition(const Origin& computed) const {
  unsigned char condition = 0;
  ShowComputed(computed, &condition, sizeof condition);
  Origin assumed = Origin::Fill(condition * 0x0101'0101u);
  assumed.writer = computed.writer;
  return assumed;
}

void Contents::WriteComputed(const Origin& origin, unsigned char* to, uint64_t bytes) {
  ShowComputed(origin, to, bytes);
  CountRead(origin.writer, bytes);
}

void Contents::CountRead(const char* writer, uint64_t bytes) {
  channel_->Count(LossId::kComputedToHost, bytes, Describe(writer));
}

std::string Contents::Describe(const char* writer) const {
  const auto reason = reasons_.find(writer);
  return reason == reasons_.end() ? writer
                                  : std::string(writer) + ": " + reason->second;
}

void Contents::CountDecisions() {
  for (const auto& [read, writer] : numbers_read_)
    channel_->Count(
        read == NumberRead::kSize ? LossId::kUnknownSizes : LossId::kUnknownDecisions,
        1, Describe(writer));
  numbers_read_.clear();
}

std::string Contents::After(std::string reason, const char* before) const {
  const auto known = reasons_.find(before);
  if (known == reasons_.end())
    return reason + kFrom + before;
  if (known->second.find(kFrom) != std::string::npos)
    return known->second;  // it is further up
  return reason + kFrom + before + ": " + known->second;
}

const char* Contents::NameWriter(const char* name, std::string reason, uint64_t input) {
  if (IsValid(input, 1)) {
    const Origin& origin = OriginOf(input);
    if (origin.kind == Origin::Kind::kUnwritten)
      reason += ", which nothing wrote";
    else if (*origin.writer == '\0')
      reason += ", a result of communication";
    else
      reason = After(std::move(reason), origin.writer);
  }
  const auto [known, is_new] = writers_.try_emplace({name, std::move(reason)});
  if (is_new) {
    known->second = std::make_unique<const std::string>(name);
    reasons_.emplace(known->second->c_str(), known->first.second);
  }
  return known->second->c_str();
}

const char* Contents::NameMadeUp(const char* name, const char* before) {
  return NameWriter(name, After("made up: its input", before));
}

bool Contents::ReadsOneElement(uint64_t address, uint64_t bytes, uint32_t element_bytes,
                               unsigned char* element) {
  if (!IsValid(address, bytes) || bytes < element_bytes)
    return false;
  bool is_first = true;
  for (const ContentRun& run : Runs(address, bytes)) {
    const bool is_zero = run.origin.kind == Origin::Kind::kUnwritten;
    if (!is_zero &&
        (run.origin.kind != Origin::Kind::kComputed ||
         (run.origin.element_bytes != 0 && (run.origin.element_bytes != element_bytes ||
                                            run.origin.offset % element_bytes != 0))))
      return false;
    unsigned char here[8] = {};
    if (!is_zero)
      ShowComputed(run.origin, here, element_bytes);
    if (!is_first && std::memcmp(here, element, element_bytes) != 0)
      return false;
    std::memcpy(element, here, element_bytes);
    is_first = false;
  }
  return !is_first;
}

bool Contents::ReadLatest(uint64_t address, uint32_t bytes, unsigned char* number,
                          bool* is_known) {
  if (!IsValid(address, bytes))
    return false;
  const Allocation& allocation = *Find(address);
  const uint64_t begin = address - allocation.base;
  const Origin* const origin = allocation.contents.LatestPiece(begin, begin + bytes);
  if (origin == nullptr)
    return false;
  *is_known = origin->kind != Origin::Kind::kComputed && !origin->made_up();
  switch (origin->kind) {
    case Origin::Kind::kBytes:
      std::memcpy(number, reinterpret_cast<const void*>(address), bytes);
      return true;
    case Origin::Kind::kFill:
      FillBytes(origin->pattern, address, number, bytes);
      return true;
    case Origin::Kind::kComputed:
      ShowComputed(*origin, number, bytes);
      return true;
    default:
      return false;
  }
}

}  // namespace vrank::gpu
