// Reads; where that succeeds, writes and reads again.

#include "tests/graph/trace/trace_fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/graph/trace/memory_file.h"
#include "tests/graph/trace/raw_file.h"

namespace vrank::graph {
namespace {

// Counts records as the reader does: as far as their lengths make sense.
uint32_t CountRecords(const std::string& plain) {
  uint32_t count = 0;
  for (size_t at = 0; at + sizeof(trace::Record) <= plain.size(); ++count) {
    trace::Record record;
    std::memcpy(&record, plain.data() + at, sizeof record);
    if (record.size < sizeof record || record.size > plain.size() - at)
      break;
    at += record.size;
  }
  return count;
}

std::string AsFile(const uint8_t* data, size_t size) {
  if (size == 0)
    return "";
  std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0)
    return rest;
  rest.resize(rest.size() / 8 * 8);
  return RawFile::Pack(
      rest, CountRecords(rest), 0,
      data[0] % 3 == 1 ? trace::Source::kCupti : trace::Source::kCanonical);
}

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

}  // namespace

void FuzzTrace(const uint8_t* data, size_t size) {
  const auto first = ReadBytes(AsFile(data, size));
  if (!first.ok()) {
    if (first.status().ToString().find("'t.vtrace'") == std::string::npos)
      Fail("an error does not name its file");
    return;
  }
  const std::string written = WriteBytes(*first);
  const auto second = ReadBytes(written);
  if (!second.ok())
    Fail("what was written cannot be read");
  if (WriteBytes(*second) != written)
    Fail("what was read again is not what was written");
}

}  // namespace vrank::graph
