// How much of a time was measured, recorded, modelled or assumed.
//
// Thread rule: pure functions and plain values.

#ifndef VRANK_TOOLS_REPORT_LEDGER_H_
#define VRANK_TOOLS_REPORT_LEDGER_H_

#include <cstdint>

#include "graph/replay/stamp.h"

namespace vrank::tools {

// How much of a time came from where; the sum of all is `total_ns`.
struct Ledger {
  int64_t total_ns = 0;
  int64_t measured_ns = 0, recorded_ns = 0, modelled_ns = 0;
  // What is assumed, by kind: kernels, copies and communication, which a better
  // description mends; and time of the host, which --host-cost vouches for. A kernel of
  // unknown size weighs as reading all that it can reach (graph::OpKind::kWork): what
  // that exceeds its time by is taken from the other parts, modelled_ns first.
  int64_t assumed_work_ns = 0, assumed_host_ns = 0;

  int64_t assumed_ns() const { return assumed_work_ns + assumed_host_ns; }

  double Share(int64_t part_ns) const {
    return total_ns == 0 ? 0 : static_cast<double>(part_ns) / total_ns;
  }
};
// The critical path from `begin` to `end`. The path to the end need not lead through
// the beginning; where a part would come out negative it counts as modelled.
Ledger MakeLedger(const graph::Stamp& begin, const graph::Stamp& end);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_LEDGER_H_
