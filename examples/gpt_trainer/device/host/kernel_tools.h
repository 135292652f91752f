// How a kernel's body runs on the host: a block is a loop; the blocks of a launch run
// one after another on the stream's thread. See the CUDA backend's header of this name.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_HOST_KERNEL_TOOLS_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_HOST_KERNEL_TOOLS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "examples/gpt_trainer/device/host/backend.h"
#include "examples/gpt_trainer/device/host/host_stream.h"

#define GPT_KERNEL

namespace gpt {

inline float ToFloat(float x) {
  return x;
}
inline float ToElement(float x) {
  return x;
}
inline float Exp(float x) {
  return std::exp(x);
}
inline float InverseRoot(float x) {
  return 1.0f / std::sqrt(x);
}
inline void AddTo(float* sum, float x) {
  *sum += x;
}

// The block that this thread runs.
struct RunningBlock {
  long long index = 0;
  long long blocks = 1;
  float* shared = nullptr;
};
inline thread_local RunningBlock running_block;

class Block {
 public:
  long long index() const { return running_block.index; }

  template <typename Body>
  void ForEach(int count, Body body) const {
    for (int i = 0; i < count; ++i) {
      body(i);
    }
  }
  template <typename Term>
  float Sum(int count, Term term) const {
    float sum = 0.0f;
    ForEach(count, [&](int i) { sum += term(i); });
    return sum;
  }
  template <typename Term>
  float Largest(int count, Term term) const {
    float largest = -std::numeric_limits<float>::infinity();
    ForEach(count, [&](int i) { largest = std::max(largest, term(i)); });
    return largest;
  }
  template <typename Body>
  void Once(Body body) const {
    body();
  }
  void Barrier() const {}
  float* shared() const { return running_block.shared; }
};

class Columns {
 public:
  template <typename Value, typename Term, typename Done>
  void Sum(int rows, int columns, Term term, Done done) const {
    for (int column = 0; column < columns; ++column) {
      Value sum{};
      for (int row = 0; row < rows; ++row) {
        sum += term(row, column);
      }
      done(column, sum);
    }
  }
};

class Grid {
 public:
  template <typename Body>
  void ForEach(long long elements, Body body) const {
    for (long long i = running_block.index; i < elements; i += running_block.blocks) {
      body(i);
    }
  }
  template <typename Term, typename Done>
  void SumOfBlock(long long elements, Term term, Done done) const {
    float sum = 0.0f;
    ForEach(elements, [&](long long i) { sum += term(i); });
    done(running_block.index, sum);
  }
};

template <typename... Parameters, typename... Values>
void LaunchBlocksWithShared(StreamHandle stream, long long blocks, long long floats,
                            void (*kernel)(Parameters...), Values... values) {
  stream->Enqueue([=] {
    std::vector<float> shared(static_cast<size_t>(floats));
    for (long long block = 0; block < blocks; ++block) {
      running_block = {block, blocks, shared.data()};
      kernel(values...);
    }
  });
}
template <typename... Parameters, typename... Values>
void LaunchBlocks(StreamHandle stream, long long blocks, void (*kernel)(Parameters...),
                  Values... values) {
  LaunchBlocksWithShared(stream, blocks, 0, kernel, values...);
}
template <typename... Parameters, typename... Values>
void LaunchColumns(StreamHandle stream, int /*columns*/, void (*kernel)(Parameters...),
                   Values... values) {
  LaunchBlocksWithShared(stream, 1, 0, kernel, values...);
}
template <typename... Parameters, typename... Values>
void LaunchElements(StreamHandle stream, long long /*elements*/,
                    void (*kernel)(Parameters...), Values... values) {
  LaunchBlocksWithShared(stream, 1, 0, kernel, values...);
}

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_HOST_KERNEL_TOOLS_H_
