// Pages on demand.

#include "virtual_gpu/code/overlay_memory.h"

#include <algorithm>

namespace vrank::gpu {

OverlayMemory::Page& OverlayMemory::At(uint64_t page) {
  if (page == last_number_)
    return *last_;
  std::unique_ptr<Page>& place = pages_[page];
  if (place == nullptr) {
    place = std::make_unique<Page>();
    device_->Load(page * kPageBytes, kPageBytes, place->bytes.data(),
                  {.known = place->known.data(),
                   .valid = place->valid.data(),
                   .made_up = place->made_up.data(),
                   .awaited = place->awaited.data()});
  }
  last_number_ = page;
  last_ = place.get();
  return *last_;
}

bool OverlayMemory::Read(uint64_t address, uint32_t bytes, unsigned char* to,
                         unsigned char* known) {
  for (uint32_t i = 0; i < bytes; ++i) {
    const Page& page = At((address + i) / kPageBytes);
    const uint64_t at = (address + i) % kPageBytes;
    if (page.valid[at] == 0)
      return false;
    to[i] = page.bytes[at];
    known[i] = page.known[at];
    read_known_ |= known[i];
    if (known[i] == 0 && page.written[at] == 0) [[unlikely]] {
      uint64_t& first = page.awaited[at] != 0 ? awaited_address_ : unknown_address_;
      first = first == 0 ? address + i : first;
    }
    if (page.made_up[at] != 0 && page.written[at] == 0 && made_up_address_ == 0)
      made_up_address_ = address + i;
  }
  return true;
}

bool OverlayMemory::Write(uint64_t address, uint32_t bytes, const unsigned char* from,
                          const unsigned char* known) {
  for (uint32_t i = 0; i < bytes; ++i) {
    Page& page = At((address + i) / kPageBytes);
    const uint64_t at = (address + i) % kPageBytes;
    if (page.valid[at] == 0)
      return false;
    page.bytes[at] = from[i];
    page.known[at] = known[i];
    page.written[at] = 0xff;
  }
  return true;
}

std::vector<OverlayMemory::Run> OverlayMemory::Written() const {
  std::vector<uint64_t> numbers;
  numbers.reserve(pages_.size());
  for (const auto& [number, page] : pages_)
    numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  std::vector<Run> runs;
  for (const uint64_t number : numbers) {
    const Page& page = *pages_.at(number);
    for (uint64_t at = 0; at < kPageBytes; ++at) {
      if (page.written[at] == 0)
        continue;
      const uint64_t address = number * kPageBytes + at;
      const bool known = page.known[at] != 0;
      if (runs.empty() || runs.back().known != known ||
          runs.back().address + runs.back().bytes.size() != address)
        runs.push_back({address, known, {}});
      runs.back().bytes.push_back(page.bytes[at]);
    }
  }
  return runs;
}

}  // namespace vrank::gpu
