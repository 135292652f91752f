// Sequences are independent: the loss of each is computed alone, position by position.

#include "examples/gpt_trainer/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "examples/gpt_trainer/kernels/element_math.h"
#include "examples/gpt_trainer/parameter_layout.h"
#include "examples/gpt_trainer/token_data.h"

namespace gpt {
namespace {

using Vector = std::vector<float>;

// Nearest bf16, ties to even: the upper half of a float.
float RoundToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

class Reference {
 public:
  Reference(const Arguments& arguments, const ModelShape& shape);

  // Sum of the losses of one sequence.
  double SequenceLoss(const std::vector<int>& tokens,
                      const std::vector<int>& labels) const;

 private:
  const float* value(int parameter) const { return values_[parameter].data(); }
  Vector Norm(const Vector& x, int weight, int bias) const;
  // x w^T + b; b < 0: none.
  Vector Linear(const Vector& x, int weight, int bias, int inputs, int outputs) const;
  Vector Attention(const Vector& qkv) const;
  void Layer(const LayerParameters& p, Vector* x) const;
  double CrossEntropy(const Vector& x, const std::vector<int>& labels) const;

  ModelShape shape_;
  ParameterLayout layout_;
  std::vector<Vector> values_;
};

ModelShape Undivided(ModelShape shape) {
  shape.tp = shape.cp = shape.pp = shape.dp = 1;
  return shape;
}

Reference::Reference(const Arguments& arguments, const ModelShape& shape)
    : shape_(Undivided(shape)), layout_(MakeParameterLayout(shape_, {}, 1)) {
  for (const Parameter& parameter : layout_.parameters) {
    Vector values(parameter.elements(), parameter.initial.constant);
    if (parameter.initial.deviation > 0.0f) {
      for (size_t i = 0; i < values.size(); ++i) {
        const float x = parameter.initial.deviation *
                        RoughlyNormal(arguments.seed, parameter.tensor, i);
        values[i] = shape.element_bytes == 2 ? RoundToBf16(x) : x;
      }
    }
    values_.push_back(std::move(values));
  }
}

Vector Reference::Norm(const Vector& x, int weight, int bias) const {
  const int h = shape_.hidden;
  Vector y(x.size());
  for (size_t row = 0; row < x.size() / h; ++row) {
    const float* in = &x[row * h];
    float mean = 0.0f;
    for (int c = 0; c < h; ++c) {
      mean += in[c] / h;
    }
    float variance = 0.0f;
    for (int c = 0; c < h; ++c) {
      variance += (in[c] - mean) * (in[c] - mean) / h;
    }
    const float inverse = 1.0f / std::sqrt(variance + kLayerNormEpsilon);
    for (int c = 0; c < h; ++c) {
      y[row * h + c] =
          Normalize(in[c], mean, inverse, value(weight)[c], value(bias)[c]);
    }
  }
  return y;
}

Vector Reference::Linear(const Vector& x, int weight, int bias, int inputs,
                         int outputs) const {
  const size_t rows = x.size() / inputs;
  Vector y(rows * outputs);
  for (size_t row = 0; row < rows; ++row) {
    for (int out = 0; out < outputs; ++out) {
      const float* w = value(weight) + static_cast<size_t>(out) * inputs;
      float sum = bias < 0 ? 0.0f : value(bias)[out];
      for (int in = 0; in < inputs; ++in) {
        sum += x[row * inputs + in] * w[in];
      }
      y[row * outputs + out] = sum;
    }
  }
  return y;
}

Vector Reference::Attention(const Vector& qkv) const {
  const int s = shape_.sequence;
  const int d = shape_.head_size();
  const int row = 3 * shape_.hidden;
  Vector context(static_cast<size_t>(s) * shape_.hidden, 0.0f);
  Vector scores(s);
  for (int head = 0; head < shape_.heads; ++head) {
    const float* base = qkv.data() + head * 3 * d;  // query, key, value of this head
    for (int i = 0; i < s; ++i) {
      for (int j = 0; j <= i; ++j) {
        float dot = 0.0f;
        for (int c = 0; c < d; ++c) {
          dot += base[i * row + c] * base[j * row + d + c];
        }
        scores[j] = dot / std::sqrt(static_cast<float>(d));
      }
      const float largest = *std::max_element(scores.begin(), scores.begin() + i + 1);
      float sum = 0.0f;
      for (int j = 0; j <= i; ++j) {
        scores[j] = std::exp(scores[j] - largest);
        sum += scores[j];
      }
      float* out = &context[static_cast<size_t>(i) * shape_.hidden + head * d];
      for (int j = 0; j <= i; ++j) {
        for (int c = 0; c < d; ++c) {
          out[c] += scores[j] / sum * base[j * row + 2 * d + c];
        }
      }
    }
  }
  return context;
}

void Reference::Layer(const LayerParameters& p, Vector* x) const {
  const int h = shape_.hidden;
  const auto add = [x](const Vector& y) {
    std::transform(x->begin(), x->end(), y.begin(), x->begin(), std::plus<>());
  };
  const Vector qkv = Linear(Norm(*x, p.norm1_weight, p.norm1_bias), p.qkv_weight,
                            p.qkv_bias, h, 3 * h);
  add(Linear(Attention(qkv), p.projection_weight, p.projection_bias, h, h));
  Vector inner = Linear(Norm(*x, p.norm2_weight, p.norm2_bias), p.fc1_weight,
                        p.fc1_bias, h, 4 * h);
  std::transform(inner.begin(), inner.end(), inner.begin(), Gelu);
  add(Linear(inner, p.fc2_weight, p.fc2_bias, 4 * h, h));
}

double Reference::CrossEntropy(const Vector& x, const std::vector<int>& labels) const {
  const int v = shape_.vocab;
  const Vector logits =
      Linear(Norm(x, layout_.final_norm_weight, layout_.final_norm_bias),
             layout_.word_embedding, -1, shape_.hidden, v);
  double loss = 0.0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const float* line = &logits[row * v];
    const float largest = *std::max_element(line, line + v);
    double sum = 0.0;
    for (int c = 0; c < v; ++c) {
      sum += std::exp(line[c] - largest);
    }
    loss += std::log(sum) + largest - line[labels[row]];
  }
  return loss;
}

double Reference::SequenceLoss(const std::vector<int>& tokens,
                               const std::vector<int>& labels) const {
  const int h = shape_.hidden;
  Vector x(tokens.size() * h);
  for (size_t position = 0; position < tokens.size(); ++position) {
    const float* word =
        value(layout_.word_embedding) + static_cast<size_t>(tokens[position]) * h;
    const float* place = value(layout_.position_embedding) + position * h;
    std::transform(word, word + h, place, &x[position * h], std::plus<>());
  }
  for (const LayerParameters& layer : layout_.layers) {
    Layer(layer, &x);
  }
  return CrossEntropy(x, labels);
}

}  // namespace

double ReferenceLoss(const Arguments& arguments, const ModelShape& shape) {
  const Reference reference(arguments, shape);
  ModelShape data_shape = Undivided(shape);
  data_shape.dp = shape.dp;  // sequences are numbered by data-parallel rank
  const TokenData data(arguments.data, data_shape);
  const int batch = shape.micro_batch_size;
  std::vector<int> tokens(data_shape.rows());
  std::vector<int> labels(data_shape.rows());
  std::vector<int> one_tokens(shape.sequence);
  std::vector<int> one_labels(shape.sequence);
  double loss = 0.0;
  for (int dp_rank = 0; dp_rank < shape.dp; ++dp_rank) {
    for (int i = 0; i < shape.micro_batches; ++i) {
      data.Fill(0, dp_rank, i, data_shape.PositionsOf(0), tokens.data(), labels.data());
      for (int sequence = 0; sequence < batch; ++sequence) {
        for (int position = 0; position < shape.sequence; ++position) {
          one_tokens[position] = tokens[position * batch + sequence];
          one_labels[position] = labels[position * batch + sequence];
        }
        loss += reference.SequenceLoss(one_tokens, one_labels);
      }
    }
  }
  return loss / shape.tokens();
}

}  // namespace gpt
