// Questions of the host about the end of a lane's work or of a token.
//
// Thread rule: any thread; the GPU's lock is not held.

#ifndef VRANK_VIRTUAL_GPU_CORE_QUERY_H_
#define VRANK_VIRTUAL_GPU_CORE_QUERY_H_

#include <cstdint>
#include <optional>

#include "base/guest/channel.h"
#include "virtual_gpu/core/error.h"

namespace vrank::gpu {

struct EndQuery {
  protocol::QueryTarget kind;
  uint32_t target;
  uint32_t generation;            // of a token
  std::optional<int64_t> end_ns;  // where it is known
};

// Whether the target has ended; spends nothing.
Answer Ask(Channel& channel, const EndQuery& query);
// The same for a call that the program may repeat until the target has ended: a query
// costs what a query costs, whatever it is for. A loop of them gets to the end by its
// own clock, and PyTorch's allocator, which asks about one event at every allocation,
// is not held up until that has happened.
Answer Poll(Channel& channel, const EndQuery& query);

// Of a wait that was answered so.
Error ResultOf(const Channel& channel, const Answer& answer);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_QUERY_H_
