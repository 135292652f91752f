#include "emulator/world/moment_sequence.h"

#include <array>

namespace vrank::emulator {
namespace {

using graph::Stamp;

constexpr std::array kMembers = {&Stamp::ns, &Stamp::assumed, &Stamp::recorded,
                                 &Stamp::measured, &Stamp::assumed_host};

// Calls visit(bit, member of the one, of the other) for both stamps.
template <class One, class Other, class Visit>
void ForEachMember(One& one, Other& other, Visit visit) {
  uint64_t bit = 1;
  for (const auto member : kMembers) {
    visit(bit, one.host.*member, other.host.*member);
    visit(bit << 1, one.completed.*member, other.completed.*member);
    bit <<= 2;
  }
}

}  // namespace

void MomentSequence::Append(const Moment& moment) {
  numbers_.Append(moment.op - last_.op);
  uint64_t changed = 0;
  ForEachMember(moment, last_, [&](uint64_t bit, int64_t now, int64_t before) {
    changed |= now == before ? 0 : bit;
  });
  numbers_.Append(changed);
  ForEachMember(moment, last_, [&](uint64_t, int64_t now, int64_t before) {
    if (now != before)
      numbers_.Append(
          ZigZag(static_cast<uint64_t>(now), static_cast<uint64_t>(before)));
  });
  last_ = moment;
}

void MomentSequence::Clear() {
  numbers_.Clear();
  last_ = {};
}

const Moment* MomentSequence::Reader::Find(uint64_t op) {
  while ((!has_moment_ || moment_.op < op) && !numbers_.AtEnd()) {
    has_moment_ = true;
    moment_.op += numbers_.Next();
    const uint64_t changed = numbers_.Next();
    Moment unused;
    ForEachMember(moment_, unused, [&](uint64_t bit, int64_t& member, int64_t&) {
      if ((changed & bit) != 0)
        member = static_cast<int64_t>(
            FromZigZag(numbers_.Next(), static_cast<uint64_t>(member)));
    });
  }
  return has_moment_ && moment_.op == op ? &moment_ : nullptr;
}

}  // namespace vrank::emulator
