#include "tools/report/ledger.h"

#include <algorithm>

namespace vrank::tools {

Ledger MakeLedger(const graph::Stamp& begin, const graph::Stamp& end) {
  Ledger ledger;
  ledger.total_ns = std::max<int64_t>(end.ns - begin.ns, 0);
  int64_t left = ledger.total_ns;
  const auto take = [&left](int64_t from, int64_t to) {
    const int64_t part = std::clamp<int64_t>(to - from, 0, left);
    left -= part;
    return part;
  };
  ledger.assumed_work_ns = take(begin.assumed, end.assumed);
  ledger.assumed_host_ns = take(begin.assumed_host, end.assumed_host);
  ledger.recorded_ns = take(begin.recorded, end.recorded);
  ledger.measured_ns = take(begin.measured, end.measured);
  ledger.modelled_ns = left;
  return ledger;
}

}  // namespace vrank::tools
