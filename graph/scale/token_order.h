// Events of a program by the order in which they are recorded, so that its ops can be
// copied, left out or repeated: a wait then is for the same record, counted back.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_SCALE_TOKEN_ORDER_H_
#define VRANK_GRAPH_SCALE_TOKEN_ORDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "graph/program/program.h"

namespace vrank::graph {

// Passes the ops of a program in their order.
class TokenReader {
 public:
  // How many records ago the token was recorded that the op is about: 1 is the latest.
  // 0: about none, or one that it records, or that nothing recorded before.
  uint64_t Pass(const Op& op);

 private:
  std::map<uint32_t, uint64_t> recorded_;  // token -> its last record, from 1 on
  uint64_t records_ = 0;
};

// Writes a program that consists of parts of another one.
class TokenWriter {
 public:
  explicit TokenWriter(const Program& program);

  void Copy(uint64_t begin, uint64_t end);
  std::unique_ptr<Program> Finish();

 private:
  uint32_t Token(uint64_t record) const {
    return 1 + static_cast<uint32_t>(record % pool_);
  }

  const Program& program_;
  std::unique_ptr<Program> copy_;
  std::vector<uint64_t> ages_;  // TokenReader::Pass, by op
  uint64_t pool_ = 1;           // tokens in use
  uint64_t records_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCALE_TOKEN_ORDER_H_
