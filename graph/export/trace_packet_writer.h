// Writes protobuf's wire format, as much of it as Perfetto's TrackEvent needs.
//
// A trace is a `Trace` message, which is nothing but its repeated field `packet`; so
// packets are appended to a file one by one and nothing is held in memory. Field
// numbers: Perfetto, protos/perfetto/trace/*.proto, stable by its compatibility rule.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_EXPORT_TRACE_PACKET_WRITER_H_
#define VRANK_GRAPH_EXPORT_TRACE_PACKET_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace vrank::graph {

class ProtoMessage {
 public:
  // Wire type 0.
  void AddVarint(uint32_t field, uint64_t value) {
    PutVarint(uint64_t{field} << 3);
    PutVarint(value);
  }
  // Wire type 1.
  void AddFixed64(uint32_t field, uint64_t value) {
    PutVarint(uint64_t{field} << 3 | 1);
    for (int i = 0; i < 8; ++i)
      bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  // Wire type 2.
  void AddBytes(uint32_t field, std::string_view bytes) {
    PutVarint(uint64_t{field} << 3 | 2);
    PutVarint(bytes.size());
    bytes_ += bytes;
  }
  void AddMessage(uint32_t field, const ProtoMessage& message) {
    AddBytes(field, message.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void PutVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_EXPORT_TRACE_PACKET_WRITER_H_
