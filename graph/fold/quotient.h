// The folded job: one rank of each colour, and communicators with one member of each
// colour that meets there.
//
// The engine plays it like any other job. What it asks is answered for the whole:
//   Membership     who belongs to a quotient communicator
//   NetworkModel   what an operation costs among all real members, not among those few
// Roots and peers in the programs are indices of members, so a program that names them
// is copied and rewritten where its quotient has fewer members (32 bytes per op and
// colour); all others are read as they are.
//
// Two quotient communicators may have the same few members and different prices, so
// members are listed under aliases: numbers above every world rank, one for each member
// of each communicator. A communicator whose members all differ in colour is its own
// quotient and keeps its members' world ranks.
//
// Thread rule: one thread, the engine's; pricing is const.

#ifndef VRANK_GRAPH_FOLD_QUOTIENT_H_
#define VRANK_GRAPH_FOLD_QUOTIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/fold/colours.h"
#include "graph/fold/view.h"
#include "graph/replay/membership.h"
#include "graph/replay/network_model.h"

namespace vrank::graph {

// A communicator of the folded job, standing for all instances that look like it.
struct QuotientCommunicator {
  uint32_t instance = 0;           // the first of them: names and prices are its
  std::vector<Label> members;      // one per (colour, number)
  std::vector<int32_t> names;      // of the members: world ranks or aliases
  bool whole = false;              // nobody was left out
  std::vector<uint32_t> standing;  // all instances that it stands for
  // Of (sender, receiver) places: world ranks of a pair that exchanges.
  std::map<std::pair<uint32_t, uint32_t>, std::pair<int32_t, int32_t>> channels;
  std::map<CollectiveCall, Cost> costs;  // by rewritten call; not for whole ones

  uint32_t PlaceOf(Label label) const;
};

class Quotient : public Membership, public NetworkModel {
 public:
  // `job` and `network` outlive it. Any colouring is taken; one that RefineColours did
  // not make gives another job.
  Quotient(const ResolvedJob* job, const Colouring& colouring,
           const NetworkModel* network);

  // Adds one rank of each colour, and the aliases.
  void AddRanks(Engine& engine);

  // By colour: the rank that is played (place in the job), and its program.
  const std::vector<uint32_t>& representatives() const { return representatives_; }
  Program* program(uint32_t colour) const { return programs_[colour]; }
  const Colouring& colouring() const { return colouring_; }
  const std::vector<QuotientCommunicator>& communicators() const {
    return communicators_;
  }
  uint32_t ColourOf(int32_t world_rank) const {
    return colouring_.colour[job_->place_of.at(world_rank)];
  }
  // The communicator that a played rank knows by `number`; kNone without.
  uint32_t CommunicatorOf(uint32_t colour, uint32_t number) const;
  // A communicator has come into being under this identity (EngineObserver).
  void NoteIdentity(int32_t rank, uint32_t number, const std::string& identity);
  const QuotientCommunicator& ByIdentity(const std::string& identity) const {
    return communicators_[by_identity_.at(identity)];
  }

  absl::StatusOr<InitAnswer> Init(const InitCaller& caller,
                                  const graph::Creation& call) override;
  absl::StatusOr<std::vector<SplitGroup>> Split(
      std::string_view parent_identity, uint32_t split_sequence,
      std::span<const SplitMember> members) override;

  Cost Collective(const CollectiveCall& call,
                  std::span<const int32_t> members) const override;
  Cost Transfer(uint64_t bytes, int32_t from, int32_t to) const override;
  uint64_t TransferCreditBytes(int32_t from, int32_t to) const override;
  Cost Creation(std::span<const int32_t> members) const override;

 private:
  struct Alias {
    uint32_t communicator = 0, place = 0;
  };

  void FindCommunicators();
  void NameMembers(QuotientCommunicator& communicator);
  void PriceCalls(QuotientCommunicator& communicator);
  void FindChannels(QuotientCommunicator& communicator);
  Program* ProgramFor(uint32_t colour);
  bool MustRewrite(uint32_t rank) const;
  CollectiveCall Rewritten(const CollectiveCall& call, uint32_t rank,
                           uint32_t number) const;
  std::vector<protocol::Transfer> Rewritten(
      const std::vector<protocol::Transfer>& transfers, uint32_t rank,
      uint32_t number) const;
  const QuotientCommunicator& Of(uint32_t rank, uint32_t number) const {
    return communicators_[by_instance_[job_->bindings[rank].at(number).instance]];
  }
  std::vector<int32_t> WorldRanks(uint32_t instance) const;
  // nullptr: not an alias.
  const Alias* Find(int32_t name) const;
  std::pair<int32_t, int32_t> RealPair(int32_t from, int32_t to) const;

  const ResolvedJob* job_;
  Colouring colouring_;
  const NetworkModel* network_;
  bool unfolded_;  // a job that cannot be folded: programs are read as they are
  std::vector<uint32_t> representatives_;
  std::vector<QuotientCommunicator> communicators_;
  std::vector<uint32_t> by_instance_;
  int32_t first_alias_ = 0;
  std::vector<Alias> aliases_;
  std::vector<Program*> programs_;
  std::vector<std::unique_ptr<Program>> rewritten_;
  std::map<std::string, uint32_t, std::less<>> by_identity_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FOLD_QUOTIENT_H_
