// What the ranks of an import communicate with each other, once the parts that they
// recorded are put together: collectives (collective_match.h) and transfers
// (transfer_match.h).
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_IMPORT_COMMUNICATION_MATCH_H_
#define VRANK_GRAPH_IMPORT_COMMUNICATION_MATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "graph/import/clock_difference.h"
#include "graph/import/communication_use.h"
#include "graph/import/dependencies.h"
#include "graph/import/recording.h"

namespace vrank::graph {

// A rank as far as it is known here.
struct RankCommunication {
  int32_t rank = 0;
  const Recording* recording = nullptr;
  const Dependencies* dependencies = nullptr;
  std::vector<CollectiveUse> uses;
  std::vector<TransferUse> transfers;

  // "rank 3 ('file')", for messages.
  std::string Subject() const;
};

struct MatchedCollective {
  uint32_t group = 0;  // place in CommunicationMatch::groups
  CollectiveCall call;
};

// A kernel that sends or receives: it meets its peers, and then it takes `then_ns`.
struct MatchedTransfers {
  uint32_t group = 0;               // place in CommunicationMatch::groups
  std::vector<Transfer> transfers;  // peers: places in the group
  int64_t then_ns = 0;
};

struct CommunicationMatch {
  struct Group {
    std::string name;
    std::vector<int32_t> members;  // all of them imported
    bool of_transfers = false;
  };
  std::vector<Group> groups;
  ClockDifferences clocks;
  // By rank, by work.
  std::map<int32_t, std::map<uint32_t, MatchedCollective>> collectives;
  std::map<int32_t, std::map<uint32_t, MatchedTransfers>> transfers;
  // By rank: why parts that others should share are not shared, the first reason.
  std::map<int32_t, absl::Status> unpaired;
};

// An error where a rank recorded parts that others should share and shares none: it is
// not of their run, or shows other steps.
absl::Status CheckOneRun(const CommunicationMatch& match);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_COMMUNICATION_MATCH_H_
