// Causal softmax over attention scores and its gradient, in place: a block per row.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

GPT_KERNEL void causal_softmax(Element* scores, int sequence) {
  const Block block;
  const int visible = static_cast<int>(block.index() % sequence) + 1;
  Element* line = scores + block.index() * sequence;
  const float largest = block.Largest(visible, [&](int c) { return ToFloat(line[c]); });
  const auto power = [&](int c) { return Exp(ToFloat(line[c]) - largest); };
  const float inverse = 1.0f / block.Sum(visible, power);
  block.ForEach(sequence, [&](int c) {
    line[c] = ToElement(c < visible ? power(c) * inverse : 0.0f);
  });
}

// ds = p * (dp - sum(p dp)).
GPT_KERNEL void causal_softmax_backward(Element* gradient, const Element* probabilities,
                                        int sequence) {
  const Block block;
  const int visible = static_cast<int>(block.index() % sequence) + 1;
  Element* line = gradient + block.index() * sequence;
  const Element* p = probabilities + block.index() * sequence;
  const float sum =
      block.Sum(visible, [&](int c) { return ToFloat(p[c]) * ToFloat(line[c]); });
  block.ForEach(sequence, [&](int c) {
    line[c] = ToElement(c < visible ? ToFloat(p[c]) * (ToFloat(line[c]) - sum) : 0.0f);
  });
}

void CausalSoftmax(Element* scores, long long rows, int sequence, StreamHandle stream) {
  LaunchBlocks(stream, rows, causal_softmax, scores, sequence);
}

void CausalSoftmaxBackward(Element* gradient, const Element* probabilities,
                           long long rows, int sequence, StreamHandle stream) {
  LaunchBlocks(stream, rows, causal_softmax_backward, gradient, probabilities,
               sequence);
}

}  // namespace gpt
