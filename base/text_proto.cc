#include "base/text_proto.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include "base/regular_file.h"

namespace vrank {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Schedules of whole runs are the longest; a message ends at 2 GiB.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr size_t kMostProblems = 20;

// Keeps every complaint of the parser, in file order.
class ParseErrors : public google::protobuf::io::ErrorCollector {
 public:
  explicit ParseErrors(std::vector<std::string>* problems) : problems_(problems) {}
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    // The parser counts from 0; people and editors from 1.
    problems_->push_back(fmt::format("{}:{}: {}", line + 1, column + 1, message));
  }

 private:
  std::vector<std::string>* problems_;
};

void CheckEnum(const google::protobuf::EnumDescriptor& type, int value,
               const std::string& where, std::vector<std::string>* problems) {
  if (type.FindValueByNumber(value) != nullptr)
    return;
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i)
    names.push_back(type.value(i)->name());
  problems->push_back(
      fmt::format("{}: {} is none of {}", where, value, fmt::join(names, ", ")));
}

void CheckNumber(double value, Numbers numbers, const std::string& where,
                 std::vector<std::string>* problems) {
  if (numbers == Numbers::kFinite && !std::isfinite(value))
    problems->push_back(fmt::format("{}: {} is no number", where, value));
}

// proto3 keeps any number in an enum's place, and text may say nan and inf: every use
// of such a value would have to expect it.
void Check(const Message& message, const std::string& above, Numbers numbers,
           std::vector<std::string>* problems) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const bool many = field->is_repeated();
      const std::string where = many ? fmt::format("{}{}[{}]", above, field->name(), i)
                                     : above + field->name();
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_ENUM:
          CheckEnum(*field->enum_type(),
                    many ? reflection.GetRepeatedEnumValue(message, field, i)
                         : reflection.GetEnumValue(message, field),
                    where, problems);
          break;
        case FieldDescriptor::CPPTYPE_DOUBLE:
          CheckNumber(many ? reflection.GetRepeatedDouble(message, field, i)
                           : reflection.GetDouble(message, field),
                      numbers, where, problems);
          break;
        case FieldDescriptor::CPPTYPE_MESSAGE:
          Check(many ? reflection.GetRepeatedMessage(message, field, i)
                     : reflection.GetMessage(message, field),
                where + ".", numbers, problems);
          break;
        default:
          break;
      }
    }
  }
}

}  // namespace

absl::Status ReadTextProto(const std::string& path, google::protobuf::Message* message,
                           google::protobuf::TextFormat::ParseInfoTree* places,
                           Numbers numbers) {
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMostBytes);
  if (!text.ok()) {
    return absl::Status(
        text.status().code(),
        fmt::format("'{}': {}", path, std::string(text.status().message())));
  }
  if (text->find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}': it is no description file: those are text, this is binary; check the "
        "path",
        path));
  }

  std::vector<std::string> problems;
  ParseErrors errors(&problems);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (places != nullptr)
    parser.WriteLocationsTo(places);
  if (parser.ParseFromString(*text, message)) {
    Check(*message, "", numbers, &problems);
  }
  if (problems.empty()) {
    return absl::OkStatus();
  }
  if (problems.size() > kMostProblems) {
    const size_t more = problems.size() - kMostProblems;
    problems.resize(kMostProblems);
    problems.push_back(fmt::format("and {} more", more));
  }
  return absl::InvalidArgumentError(
      fmt::format("'{}': {}", path, fmt::join(problems, "; ")));
}

}  // namespace vrank
