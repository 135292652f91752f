// See program_content.h.

#include "graph/program/program_content.h"

#include <algorithm>

namespace vrank::graph {
namespace {

bool SameCreation(const Creation& a, const Creation& b) {
  return a.parent == b.parent && a.local_members == b.local_members &&
         a.excluded == b.excluded;
}

bool SameDetails(const Details& a, const Details& b) {
  const auto same_transfer = [](const Transfer& x, const Transfer& y) {
    return x.bytes == y.bytes && x.peer == y.peer && x.is_send == y.is_send;
  };
  const auto same_group = [&](const std::vector<Transfer>& x,
                              const std::vector<Transfer>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_transfer);
  };
  return a.collectives == b.collectives && a.names == b.names &&
         std::equal(a.creations.begin(), a.creations.end(), b.creations.begin(),
                    b.creations.end(), SameCreation) &&
         std::equal(a.transfer_groups.begin(), a.transfer_groups.end(),
                    b.transfer_groups.begin(), b.transfer_groups.end(), same_group);
}

// Of a few places, so that programs that differ are mostly told apart at once.
uint64_t Digest(const Program& program) {
  constexpr uint64_t kLooked = 64;
  const uint64_t size = program.size();
  uint64_t digest = size;
  const auto mix = [&digest](uint64_t value) {
    // Knuth's MMIX generator as a mixer.
    digest = (digest ^ value) * 6364136223846793005u + 1442695040888963407u;
  };
  for (uint64_t i = 0; i < kLooked && size != 0; ++i) {
    const Op& op = program.op(i * (size - 1) / (kLooked - 1));
    mix(static_cast<uint64_t>(op.host_ns));
    mix(static_cast<uint64_t>(op.value));
    mix(uint64_t{op.a} << 32 | op.b);
  }
  return digest;
}

}  // namespace

bool DoTheSame(const Program& a, const Program& b) {
  if (&a == &b)
    return true;
  if (a.size() != b.size() || !SameDetails(a.details(), b.details()))
    return false;
  for (uint64_t begin = 0; begin < a.size();) {
    const uint64_t end = std::min(a.ChunkEnd(begin), b.ChunkEnd(begin));
    if (!std::equal(&a.op(begin), &a.op(begin) + (end - begin), &b.op(begin)))
      return false;
    begin = end;
  }
  return true;
}

uint32_t ProgramNumbering::operator()(const Program* program) {
  const auto [known, added] =
      known_.try_emplace(program, static_cast<uint32_t>(firsts_.size()));
  if (!added)
    return known->second;
  const uint64_t digest = Digest(*program);
  const auto [begin, end] = firsts_.equal_range(digest);
  for (auto first = begin; first != end; ++first) {
    if (DoTheSame(*first->second, *program))
      return known->second = known_.at(first->second);
  }
  firsts_.emplace(digest, program);
  return known->second;
}

}  // namespace vrank::graph
