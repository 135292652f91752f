// FuzzTrace over a bounded number of mutated files, with every compiler.

#include "tests/graph/trace/trace_fuzz.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/base/mutate.h"
#include "tests/graph/trace/memory_file.h"
#include "tests/graph/trace/raw_file.h"

namespace vrank::graph {
namespace {

template <typename T>
void AddOne(trace::Kind kind, std::string* records) {
  T record{};
  record.record = {kind, 0, sizeof record};
  records->append(reinterpret_cast<const char*>(&record), sizeof record);
}

// One record of each kind, all zero.
std::string AllKinds() {
  std::string records;
  AddOne<trace::Start>(trace::Kind::kStart, &records);
  AddOne<trace::Call>(trace::Kind::kCall, &records);
  AddOne<trace::Work>(trace::Kind::kWork, &records);
  AddOne<trace::Sync>(trace::Kind::kSync, &records);
  AddOne<trace::EventRecord>(trace::Kind::kEventRecord, &records);
  AddOne<trace::Stream>(trace::Kind::kStream, &records);
  AddOne<trace::Memory>(trace::Kind::kMemory, &records);
  AddOne<trace::Pool>(trace::Kind::kPool, &records);
  AddOne<trace::Reserve>(trace::Kind::kReserve, &records);
  AddOne<trace::Range>(trace::Kind::kRange, &records);
  AddOne<trace::Overhead>(trace::Kind::kOverhead, &records);
  AddOne<trace::ExternalId>(trace::Kind::kExternalId, &records);
  AddOne<trace::Collective>(trace::Kind::kCollective, &records);
  AddOne<trace::Transfers>(trace::Kind::kTransfers, &records);
  AddOne<trace::Creation>(trace::Kind::kCreation, &records);
  AddOne<trace::Release>(trace::Kind::kRelease, &records);
  AddOne<trace::Session>(trace::Kind::kSession, &records);
  AddOne<trace::Dropped>(trace::Kind::kDropped, &records);
  AddOne<trace::End>(trace::Kind::kEnd, &records);
  return records;
}

TEST(TraceFuzzTest, HoldsUnderMutatedFiles) {
  const std::string file = WriteBytes(RankTrace());
  std::vector<std::string> seeds(4);
  seeds[1].append(1, '\0').append(file);
  seeds[2].append(1, '\1').append(AllKinds());
  seeds[3].append(1, '\2').append(AllKinds());
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const std::string input =
        Mutated(seeds[random() % seeds.size()], 8, SmallValues(), &random);
    FuzzTrace(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace vrank::graph
