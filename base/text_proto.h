// Reads protobuf messages that people write as text.
//
// Thread rule: a free function without state.

#ifndef VRANK_BASE_TEXT_PROTO_H_
#define VRANK_BASE_TEXT_PROTO_H_

#include <string>

#include <absl/status/status.h>
#include <google/protobuf/message.h>

namespace vrank {

// Parses the file at `path`. An error lists every problem with its line and column.
absl::Status ReadTextProto(const std::string& path, google::protobuf::Message* message);

}  // namespace vrank

#endif  // VRANK_BASE_TEXT_PROTO_H_
