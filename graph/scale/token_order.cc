#include "graph/scale/token_order.h"

#include <algorithm>
#include <utility>

namespace vrank::graph {
namespace {

enum class TokenUse { kNone, kRecords, kReads };

TokenUse UseOf(const Op& op) {
  switch (op.kind) {
    case OpKind::kRecordToken:
      return TokenUse::kRecords;
    case OpKind::kCreateCommunicator:
      return op.value != 0 ? TokenUse::kRecords : TokenUse::kNone;
    case OpKind::kWaitToken:
    case OpKind::kHostWaitToken:
    case OpKind::kQueryToken:
    case OpKind::kPollToken:
      return TokenUse::kReads;
    default:
      return TokenUse::kNone;
  }
}

uint32_t RecordedToken(const Op& op) {
  return op.kind == OpKind::kRecordToken ? op.a : static_cast<uint32_t>(op.value);
}

}  // namespace

uint64_t TokenReader::Pass(const Op& op) {
  const TokenUse use = UseOf(op);
  if (use == TokenUse::kRecords)
    recorded_[RecordedToken(op)] = ++records_;
  if (use != TokenUse::kReads)
    return 0;
  const auto record = recorded_.find(op.a);
  return record == recorded_.end() ? 0 : records_ - record->second + 1;
}

TokenWriter::TokenWriter(const Program& program)
    : program_(program), copy_(std::make_unique<Program>(/*retain=*/true)) {
  for (const std::string& name : program.details().names)
    copy_->AddName(name);  // in their order: ops keep their indices
  TokenReader reader;
  for (uint64_t i = 0; i < program.size(); ++i) {
    ages_.push_back(reader.Pass(program.op(i)));
    pool_ = std::max(pool_, ages_.back() + 1);
  }
}

void TokenWriter::Copy(uint64_t begin, uint64_t end) {
  const Details& details = program_.details();
  for (uint64_t i = begin; i < end; ++i) {
    Op op = program_.op(i);
    switch (UseOf(op)) {
      case TokenUse::kRecords:
        ++records_;
        if (op.kind == OpKind::kRecordToken)
          op.a = Token(records_);
        else
          op.value = Token(records_);
        break;
      case TokenUse::kReads:
        op.a = ages_[i] == 0 ? 0 : Token(records_ - ages_[i] + 1);
        break;
      case TokenUse::kNone:
        break;
    }
    if (op.kind == OpKind::kCollective)
      op.b = copy_->AddCollective(details.collectives[op.b]);
    else if (op.kind == OpKind::kTransfers)
      op.b = copy_->AddTransfers(details.transfer_groups[op.b]);
    else if (op.kind == OpKind::kCreateCommunicator)
      op.b = copy_->AddCreation(details.creations[op.b]);
    copy_->Append(op);
  }
}

std::unique_ptr<Program> TokenWriter::Finish() {
  copy_->Close();
  return std::move(copy_);
}

}  // namespace vrank::graph
