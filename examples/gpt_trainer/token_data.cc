// Sequence number n starts at n * sequence, wrapped so that its label still fits.

#include "examples/gpt_trainer/token_data.h"

#include <fstream>
#include <ios>
#include <iterator>
#include <stdexcept>

namespace gpt {
namespace {

std::string GenerateText(size_t at_least) {
  static const char* const kWho[] = {"the cluster",  "a rank",        "the network",
                                     "a kernel",     "the scheduler", "a stream",
                                     "the optimizer"};
  static const char* const kDoes[] = {"waits for", "sends to", "meets", "overtakes",
                                      "computes with"};
  constexpr size_t kSubjects = std::size(kWho);
  constexpr size_t kVerbs = std::size(kDoes);
  std::string text;
  // 7, 5 and 7 with three coprime strides: the sentences repeat only after a while.
  for (size_t i = 0; text.size() < at_least; ++i) {
    text += kWho[i % kSubjects];
    text += ' ';
    text += kDoes[i * 3 % kVerbs];
    text += ' ';
    text += kWho[(i * 5 + i / kSubjects) % kSubjects];
    text += i % 4 == 3 ? ".\n" : ", ";
  }
  return text;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("--data: cannot read '" + path + "'");
  }
  try {
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  } catch (const std::ios_base::failure& error) {  // a folder, or a disk that fails
    throw std::runtime_error("--data: cannot read '" + path +
                             "': " + error.code().message() + "; name a text file");
  }
}

}  // namespace

TokenData::TokenData(const std::string& path, const ModelShape& shape) : shape_(shape) {
  const size_t needed = static_cast<size_t>(shape.sequence) + 1;
  constexpr size_t kGeneratedBytes = 1 << 16;
  text_ = path.empty() ? GenerateText(needed + kGeneratedBytes) : ReadFile(path);
  if (text_.size() < needed) {
    throw std::runtime_error("--data: '" + path + "' has " +
                             std::to_string(text_.size()) +
                             " bytes, a sequence needs " + std::to_string(needed));
  }
}

void TokenData::Fill(int iteration, int dp_rank, int micro_batch,
                     const Positions& positions, int* tokens, int* labels) const {
  const int batch = shape_.micro_batch_size;
  const size_t first_sequence =
      ((static_cast<size_t>(iteration) * shape_.dp + dp_rank) * shape_.micro_batches +
       micro_batch) *
      batch;
  const size_t starts = text_.size() - shape_.sequence;
  for (int i = 0; i < batch; ++i) {
    const size_t start = (first_sequence + i) * shape_.sequence % starts;
    for (int local = 0; local < shape_.local_sequence(); ++local) {
      const size_t at = static_cast<size_t>(local) * batch + i;
      const size_t position = start + positions.at(local);
      tokens[at] = static_cast<unsigned char>(text_[position]);
      labels[at] = static_cast<unsigned char>(text_[position + 1]);
    }
  }
}

}  // namespace gpt
