// Reads protobuf messages that people write as text.
//
// Thread rule: a free function without state.

#ifndef VRANK_BASE_TEXT_PROTO_H_
#define VRANK_BASE_TEXT_PROTO_H_

#include <string>

#include <absl/status/status.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

namespace vrank {

// kFinite: nan and inf are errors.
enum class Numbers { kFinite, kAny };

// Parses the file at `path`. An error lists what is wrong: syntax, unknown and repeated
// fields with line and column; values that no enum names, and numbers that are none,
// with their field.
// `places`: not null: where each field stands, in lines and columns from 0.
absl::Status ReadTextProto(
    const std::string& path, google::protobuf::Message* message,
    google::protobuf::TextFormat::ParseInfoTree* places = nullptr,
    Numbers numbers = Numbers::kFinite);

}  // namespace vrank

#endif  // VRANK_BASE_TEXT_PROTO_H_
