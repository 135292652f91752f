// Forward and backward move rows in the same ways, only that backward's go-between are
// gradients.

#include "examples/gpt_trainer/expert_mlp.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gpt {

ExpertMlp::ExpertMlp(const RankContext& context, const ParameterStore& store,
                     const LayerParameters& parameters)
    : context_(context),
      store_(store),
      p_(parameters),
      experts_here_(context.shape.experts / context.shape.ep),
      host_counts_(
          std::make_unique<PinnedArray<int>>(context.shape.ep * context.shape.experts)),
      seed_(Mix(store.layout().parameters[parameters.router_weight].tensor)) {
  const ModelShape& shape = context.shape;
  if (shape.router_skew < 0.0f) {
    return;
  }
  host_choice_ = std::make_unique<PinnedArray<int>>(shape.rank_rows() + shape.experts);
  float sum = 0.0f;
  for (int e = 0; e < shape.experts; ++e) {
    sum += std::pow(static_cast<float>(e + 1), -shape.router_skew);
    cumulative_.push_back(sum);
  }
}

void ExpertMlp::DrawExperts(int* expert, int* counts) const {
  const ModelShape& shape = context_.shape;
  std::fill(counts, counts + shape.experts, 0);
  const int micro_batch = forwards_++ % shape.micro_batches;
  const int batch = shape.micro_batch_size;
  const long long first_sequence =
      (1LL * context_.at.dp * shape.micro_batches + micro_batch) * batch;
  const Positions positions = shape.PositionsOf(context_.at.cp);
  const int first_row = context_.at.tp * shape.rank_rows();
  for (int row = 0; row < shape.rank_rows(); ++row) {
    const long long sequence = first_sequence + (first_row + row) % batch;
    const long long token =
        sequence * shape.sequence + positions.at((first_row + row) / batch);
    const uint64_t draw = Mix(seed_ + static_cast<uint64_t>(token));
    constexpr float kUnit = 1.0f / (1 << 24);
    const float at = static_cast<float>(draw >> 40) * kUnit * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
    expert[row] =
        std::min(static_cast<int>(found - cumulative_.begin()), shape.experts - 1);
    ++counts[expert[row]];
  }
}

void ExpertMlp::Route(const DeviceArray<Element>& x, ExpertActivations* saved) const {
  const ModelShape& shape = context_.shape;
  const StreamHandle stream = context_.compute;
  const int rows = shape.rank_rows();
  const int experts = shape.experts;
  saved->probabilities = {context_.allocator, 1LL * rows * experts};
  saved->expert = {context_.allocator, rows};
  saved->slot = {context_.allocator, rows};
  saved->gate = {context_.allocator, rows};
  const DeviceArray<int> counts(context_.allocator, experts);
  const DeviceArray<int> all_counts(context_.allocator, 1LL * shape.ep * experts);
  context_.multiply.Forward(saved->probabilities.data(), x.data(),
                            store_.value(p_.router_weight), rows, shape.hidden,
                            experts);
  if (host_choice_ == nullptr) {
    RouteRows(saved->expert.data(), saved->gate.data(), saved->probabilities.data(),
              rows, experts, nullptr, stream);
    CountRows(counts.data(), saved->expert.data(), rows, experts, stream);
  } else {
    // The previous copies have ended: their counts were waited for.
    DrawExperts(host_choice_->data(), host_choice_->data() + rows);
    const DeviceArray<int> drawn(context_.allocator, rows);
    CopyToDevice(drawn.data(), host_choice_->data(), rows * sizeof(int), stream);
    CopyToDevice(counts.data(), host_choice_->data() + rows, experts * sizeof(int),
                 stream);
    RouteRows(saved->expert.data(), saved->gate.data(), saved->probabilities.data(),
              rows, experts, drawn.data(), stream);
  }
  SortRows(saved->slot.data(), saved->expert.data(), rows, stream);
  const int* known = counts.data();
  if (shape.ep > 1) {
    context_.groups.expert().AllGather(counts.data(), all_counts.data(), experts,
                                       stream);
    known = all_counts.data();
  }
  const int numbers = shape.ep * experts;
  CopyToHost(host_counts_->data(), known, numbers * sizeof(int), stream);
  copied_.Record(stream);
  copied_.Synchronize();
  saved->counts.assign(host_counts_->data(), host_counts_->data() + numbers);
}

int ExpertMlp::RowsFor(const std::vector<int>& counts, int local_expert) const {
  const int expert = context_.groups.expert().rank() * experts_here_ + local_expert;
  int rows = 0;
  for (int source = 0; source < context_.shape.ep; ++source) {
    rows += counts[source * context_.shape.experts + expert];
  }
  return rows;
}

int ExpertMlp::RowsHere(const std::vector<int>& counts) const {
  int rows = 0;
  for (int e = 0; e < experts_here_; ++e) {
    rows += RowsFor(counts, e);
  }
  return rows;
}

template <typename Body>
void ExpertMlp::ForEachExpert(const std::vector<int>& counts, Body body) const {
  long long first = 0;
  for (int e = 0; e < experts_here_; ++e) {
    const int rows = RowsFor(counts, e);
    if (rows > 0) {
      body(e, first, rows);
    }
    first += rows;
  }
}

void ExpertMlp::Exchange(Way way, Element* sorted, Element* at_experts,
                         const std::vector<int>& counts) const {
  const ModelShape& shape = context_.shape;
  const int me = context_.groups.expert().rank();
  const long long columns = shape.hidden;
  if (shape.ep == 1) {  // both are sorted by expert
    Element* to = way == Way::kToExperts ? at_experts : sorted;
    const Element* from = way == Way::kToExperts ? sorted : at_experts;
    // Where no kernel computes, the host reads that no expert gets a row.
    if (const long long rows = RowsHere(counts); rows > 0) {
      CopyOnDevice(to, from, rows * columns * sizeof(Element), context_.compute);
    }
    return;
  }
  std::vector<Transfer> transfers;
  const auto add = [&](bool sends, int peer, Element* data, int rows) {
    transfers.push_back(sends ? SendTo(peer, data, rows * columns)
                              : ReceiveFrom(peer, data, rows * columns));
  };
  long long row = 0;
  for (int expert = 0; expert < shape.experts; ++expert) {
    const int rows = counts[me * shape.experts + expert];
    add(way == Way::kToExperts, expert / experts_here_, sorted + row * columns, rows);
    row += rows;
  }
  row = 0;
  for (int expert = me * experts_here_; expert < (me + 1) * experts_here_; ++expert) {
    for (int source = 0; source < shape.ep; ++source) {
      const int rows = counts[source * shape.experts + expert];
      add(way == Way::kBack, source, at_experts + row * columns, rows);
      row += rows;
    }
  }
  context_.groups.expert().Exchange(transfers, context_.compute);
}

DeviceArray<Element> ExpertMlp::Forward(const DeviceArray<Element>& residual,
                                        const DeviceArray<Element>& x,
                                        ExpertActivations* saved) const {
  const ModelShape& shape = context_.shape;
  const int rows = shape.rank_rows();
  const long long h = shape.hidden;
  const long long f = shape.ffn();
  Route(x, saved);
  const long long here = RowsHere(saved->counts);
  saved->received = {context_.allocator, here * h};
  {
    const DeviceArray<Element> sorted(context_.allocator, rows * h);
    ScatterRows(sorted.data(), x.data(), saved->slot.data(), rows, shape.hidden,
                context_.compute);
    Exchange(Way::kToExperts, sorted.data(), saved->received.data(), saved->counts);
  }
  saved->fc1 = {context_.allocator, here * f};
  saved->gelu = {context_.allocator, here * f};
  const DeviceArray<Element> results(context_.allocator, here * h);
  ForEachExpert(saved->counts, [&](int e, long long first, int count) {
    Element* fc1 = saved->fc1.data() + first * f;
    Element* gelu = saved->gelu.data() + first * f;
    Element* result = results.data() + first * h;
    context_.multiply.Forward(fc1, saved->received.data() + first * h,
                              store_.value(p_.fc1_weight) + e * f * h, count,
                              shape.hidden, shape.ffn());
    BiasGelu(gelu, fc1, store_.value(p_.fc1_bias) + e * f, count, shape.ffn(),
             context_.compute);
    context_.multiply.Forward(result, gelu, store_.value(p_.fc2_weight) + e * h * f,
                              count, shape.ffn(), shape.hidden);
    AddBias(result, store_.value(p_.fc2_bias) + e * h, count, shape.hidden,
            context_.compute);
  });
  saved->returned = {context_.allocator, rows * h};
  Exchange(Way::kBack, saved->returned.data(), results.data(), saved->counts);
  DeviceArray<Element> output(context_.allocator, rows * h);
  CombineRows(output.data(), residual.data(), saved->returned.data(),
              saved->slot.data(), saved->gate.data(), rows, shape.hidden,
              context_.compute);
  return output;
}

DeviceArray<Element> ExpertMlp::Backward(const DeviceArray<Element>& gradient,
                                         const DeviceArray<Element>& x,
                                         ExpertActivations* saved) const {
  const ModelShape& shape = context_.shape;
  const int rows = shape.rank_rows();
  const long long h = shape.hidden;
  const long long f = shape.ffn();
  const long long here = RowsHere(saved->counts);
  const DeviceArray<Element> dsorted(context_.allocator, rows * h);
  const DeviceArray<Element> dresults(context_.allocator, here * h);
  const DeviceArray<float> dgate(context_.allocator, rows);
  CombineRowsBackward(dsorted.data(), dgate.data(), gradient.data(),
                      saved->returned.data(), saved->slot.data(), saved->gate.data(),
                      rows, shape.hidden, context_.compute);
  Exchange(Way::kToExperts, dsorted.data(), dresults.data(), saved->counts);
  const DeviceArray<Element> dfc1(context_.allocator, here * f);
  ForEachExpert(saved->counts, [&](int e, long long first, int count) {
    const Element* dresult = dresults.data() + first * h;
    Element* received = saved->received.data() + first * h;
    Element* dhidden = dfc1.data() + first * f;
    BiasGradient(store_.gradient(p_.fc2_bias) + e * h, dresult, count, shape.hidden,
                 context_.compute);
    context_.multiply.WeightGradient(store_.gradient(p_.fc2_weight) + e * h * f,
                                     dresult, saved->gelu.data() + first * f, count,
                                     shape.ffn(), shape.hidden);
    context_.multiply.InputGradient(dhidden, dresult,
                                    store_.value(p_.fc2_weight) + e * h * f, count,
                                    shape.ffn(), shape.hidden);
    GeluBackward(dhidden, dhidden, saved->fc1.data() + first * f, count * f,
                 context_.compute);
    BiasGradient(store_.gradient(p_.fc1_bias) + e * f, dhidden, count, shape.ffn(),
                 context_.compute);
    context_.multiply.WeightGradient(store_.gradient(p_.fc1_weight) + e * f * h,
                                     dhidden, received, count, shape.hidden,
                                     shape.ffn());
    // What was received is not needed any more: its gradient takes its place.
    context_.multiply.InputGradient(received, dhidden,
                                    store_.value(p_.fc1_weight) + e * f * h, count,
                                    shape.hidden, shape.ffn());
  });
  Exchange(Way::kBack, dsorted.data(), saved->received.data(), saved->counts);
  RouteRowsBackward(saved->probabilities.data(), saved->expert.data(),
                    saved->gate.data(), dgate.data(), rows, shape.experts,
                    context_.compute);
  const Element* dlogits = saved->probabilities.data();
  context_.multiply.WeightGradient(store_.gradient(p_.router_weight), dlogits, x.data(),
                                   rows, shape.hidden, shape.experts);
  DeviceArray<Element> dx(context_.allocator, rows * h);
  context_.multiply.InputGradient(dx.data(), dlogits, store_.value(p_.router_weight),
                                  rows, shape.hidden, shape.experts);
  AddSortedRows(dx.data(), dsorted.data(), saved->slot.data(), rows, shape.hidden,
                context_.compute);
  *saved = ExpertActivations();
  return dx;
}

}  // namespace gpt
