// Makes .vtrace files as a tracer would, record by record.

#ifndef VRANK_TESTS_GRAPH_TRACE_RAW_FILE_H_
#define VRANK_TESTS_GRAPH_TRACE_RAW_FILE_H_

#include <cstring>
#include <string>
#include <string_view>

#include "base/guest/crc32c.h"
#include "base/guest/trace_format.h"

namespace vrank::graph {

class RawFile {
 public:
  template <typename T>
  RawFile& Add(trace::Kind kind, T record, std::string_view tail = {},
               uint16_t flags = 0) {
    record.record = {
        kind, flags,
        trace::RoundUp8(static_cast<uint32_t>(sizeof record + tail.size()))};
    const size_t end = chunk_.size() + record.record.size;
    chunk_.append(reinterpret_cast<const char*>(&record), sizeof record);
    chunk_.append(tail);
    chunk_.resize(end);
    ++records_;
    return *this;
  }
  RawFile& Name(uint32_t number, std::string_view text) {
    trace::Name name{};
    name.name = number;
    name.length = static_cast<uint32_t>(text.size());
    return Add(trace::Kind::kName, name, text);
  }
  RawFile& End() { return Add(trace::Kind::kEnd, trace::End{}); }

  // Closes the chunk; the next record begins another.
  RawFile& Chunk(trace::Source source = trace::Source::kCupti) {
    bytes_ += Pack(chunk_, records_, sequence_++, source);
    chunk_.clear();
    records_ = 0;
    return *this;
  }

  std::string Bytes() {
    if (records_ > 0)
      Chunk();
    return bytes_;
  }

  static std::string Pack(const std::string& plain, uint32_t records, uint32_t sequence,
                          trace::Source source) {
    trace::ChunkHeader header{};
    std::memcpy(header.magic, trace::kMagic, sizeof header.magic);
    header.version = trace::kVersion;
    header.source = source;
    header.sequence = sequence;
    header.records = records;
    header.stored_bytes = header.plain_bytes = header.encoded_bytes =
        static_cast<uint32_t>(plain.size());
    header.crc = Crc32c(plain.data(), plain.size(), Crc32c(&header, sizeof header));
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + plain;
  }

 private:
  std::string bytes_, chunk_;
  uint32_t records_ = 0, sequence_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_TRACE_RAW_FILE_H_
