// Training data: the bytes of a text are the tokens.
//
// Sequences are cut from the text by number, so that every rank knows its sequences
// without talking to others: iteration, data-parallel rank, micro-batch and place in
// the micro-batch give the number.

#ifndef EXAMPLES_GPT_TRAINER_TOKEN_DATA_H_
#define EXAMPLES_GPT_TRAINER_TOKEN_DATA_H_

#include <string>

#include "examples/gpt_trainer/model_shape.h"

namespace gpt {

class TokenData {
 public:
  // Reads the file; an empty path generates a text of a few simple sentences.
  // Throws std::runtime_error where the file cannot be read or is shorter than one
  // sequence and its label.
  TokenData(const std::string& path, const ModelShape& shape);

  // Fills tokens and labels of one micro-batch at these positions, each
  // [positions][micro_batch_size].
  void Fill(int iteration, int dp_rank, int micro_batch, const Positions& positions,
            int* tokens, int* labels) const;

 private:
  ModelShape shape_;
  std::string text_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_TOKEN_DATA_H_
