// Traces that are falsified on purpose, for a vrank that is built with this file in the
// place of the real one: a comparison of traces with the emulator's own record that
// cannot tell them from right ones would be worth nothing.
//
// VRANK_WRONG_TRACE names what is done to the trace, to one row in its middle:
//
//   none      nothing: the control
//   longer    a kernel takes 1 ns more
//   renamed   a kernel goes by another one's name
//   unwaited  a stream no longer waits for an event
//   unfreed   device memory is not given back
//   swapped   two communicators are released in the other order

#define PutInOrder PutInRightOrder
#include "graph/trace/canonical_order.cc"
#undef PutInOrder

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

namespace vrank::graph {

void PutInOrder(RankTrace* trace);

namespace {

// The middle one of the rows that `is_one` takes; without one the test is void.
template <typename Row, typename IsOne>
typename std::vector<Row>::iterator Middle(std::vector<Row>* rows, IsOne is_one) {
  std::vector<typename std::vector<Row>::iterator> found;
  for (auto row = rows->begin(); row != rows->end(); ++row)
    if (is_one(*row))
      found.push_back(row);
  if (found.empty()) {
    std::fputs("VRANK_WRONG_TRACE: the trace has no such row\n", stderr);
    std::exit(99);
  }
  return found[found.size() / 2];
}

void Falsify(std::string_view how, RankTrace* trace) {
  // NCCL's own kernels last as long as others let them, which is no part of a program.
  const auto is_kernel = [&](const TracedWork& row) {
    return row.work == WorkClass::kKernel &&
           trace->names[row.name].find("nccl") == std::string::npos;
  };
  if (how == "longer") {
    ++Middle(&trace->work, is_kernel)->end_ns;
  } else if (how == "renamed") {
    const auto kernel = Middle(&trace->work, is_kernel);
    kernel->name = Middle(&trace->work, [&](const TracedWork& row) {
                     return is_kernel(row) && row.name != kernel->name;
                   })->name;
  } else if (how == "unwaited") {
    trace->syncs.erase(Middle(&trace->syncs, [](const TracedSync& row) {
      return row.kind == SyncKind::kStreamWait;
    }));
  } else if (how == "unfreed") {
    trace->memory.erase(Middle(&trace->memory, [](const TracedMemory& row) {
      return row.release && row.device && !row.is_async;
    }));
  } else if (how == "swapped") {
    const auto destroys = [](const TracedNcclCall& row) {
      return row.kind == TracedNcclCall::Kind::kRelease &&
             row.release == ReleaseKind::kDestroy;
    };
    const auto one = Middle(&trace->nccl_calls, destroys);
    const auto other = Middle(&trace->nccl_calls, [&](const TracedNcclCall& row) {
      return destroys(row) && row.communicator != one->communicator;
    });
    std::swap(one->communicator, other->communicator);
  }
}

}  // namespace

void PutInOrder(RankTrace* trace) {
  PutInRightOrder(trace);
  static const char* how = std::getenv("VRANK_WRONG_TRACE");
  if (how != nullptr)
    Falsify(std::exchange(how, nullptr), trace);  // a slice is put in order twice
}

}  // namespace vrank::graph
