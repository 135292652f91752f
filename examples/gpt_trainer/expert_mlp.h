// The MLP of a layer as a mixture of experts (Fedus et al. 2021, "Switch
// Transformers"): a router sends each row to one expert and weighs what comes back by
// its probability.
//
// Experts are spread over the expert-parallel group; each works on whole rows, so that
// tensor-parallel ranks send their slices apart. The devices decide who sends how much:
// the counts are gathered, the host reads them, and rows go to their experts and back
// by all-to-alls of those sizes. No row is dropped and nothing balances the load.
//
// With --router-skew the host draws the experts instead, early ones more often (Zipf's
// law), to study uneven loads without training for them: by layer and by the token's
// number in the iteration, so that every layout draws the same, in each iteration.

#ifndef EXAMPLES_GPT_TRAINER_EXPERT_MLP_H_
#define EXAMPLES_GPT_TRAINER_EXPERT_MLP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "examples/gpt_trainer/kernels/kernels.h"
#include "examples/gpt_trainer/parameter_store.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

struct ExpertActivations {
  DeviceArray<Element> probabilities;  // [rows, experts]
  DeviceArray<int> expert;             // of each row
  DeviceArray<int> slot;
  DeviceArray<float> gate;
  std::vector<int> counts;         // [ep][experts]: rows from each rank for each expert
  DeviceArray<Element> received;   // what this rank's experts work on, expert by expert
  DeviceArray<Element> fc1, gelu;  // of those rows
  DeviceArray<Element> returned;   // what this rank's rows became, sorted
};

class ExpertMlp {
 public:
  ExpertMlp(const RankContext& context, const ParameterStore& store,
            const LayerParameters& parameters);

  // residual + the experts' results for x; all [rank_rows, hidden].
  DeviceArray<Element> Forward(const DeviceArray<Element>& residual,
                               const DeviceArray<Element>& x,
                               ExpertActivations* saved) const;
  // The gradient of x, given that of the output. Gives `saved` back.
  DeviceArray<Element> Backward(const DeviceArray<Element>& gradient,
                                const DeviceArray<Element>& x,
                                ExpertActivations* saved) const;

 private:
  enum class Way { kToExperts, kBack };

  // Fills saved->expert, gate, slot and counts.
  void Route(const DeviceArray<Element>& x, ExpertActivations* saved) const;
  void DrawExperts(int* expert, int* counts) const;
  // Rows of this rank, sorted, to the ranks of their experts, or back.
  void Exchange(Way way, Element* sorted, Element* at_experts,
                const std::vector<int>& counts) const;
  // body(local expert, first row, rows) for those with rows.
  template <typename Body>
  void ForEachExpert(const std::vector<int>& counts, Body body) const;
  int RowsFor(const std::vector<int>& counts, int local_expert) const;
  int RowsHere(const std::vector<int>& counts) const;

  const RankContext& context_;
  const ParameterStore& store_;
  LayerParameters p_;
  int experts_here_;
  std::unique_ptr<PinnedArray<int>> host_counts_;  // [ep][experts]
  // --router-skew: what the host draws, and from what.
  std::unique_ptr<PinnedArray<int>> host_choice_;  // experts of the rows, counts
  std::vector<float> cumulative_;
  uint64_t seed_;
  mutable int forwards_ = 0;
  Event copied_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_EXPERT_MLP_H_
