// A table of options drives parsing and --help, so that the two cannot disagree.

#include "examples/gpt_trainer/arguments.h"

#include <charconv>
#include <limits>
#include <sstream>
#include <variant>

namespace gpt {
namespace {

struct IntegerField {
  int Arguments::*field;
  int minimum;
};
struct FloatField {
  float Arguments::*field;  // never negative
};
struct SeedField {};
struct TextField {
  std::string Arguments::*field;
};
struct ChoiceField {
  std::vector<const char*> names;
  void (*assign)(Arguments*, int chosen);  // by place among the names
};
struct FlagField {
  bool Arguments::*field;
};

struct Option {
  const char* name;
  std::variant<IntegerField, FloatField, SeedField, TextField, ChoiceField, FlagField>
      target;
  const char* help;
};

const Option kOptions[] = {
    {"--layers", IntegerField{&Arguments::layers, 1}, "transformer layers"},
    {"--hidden", IntegerField{&Arguments::hidden, 1}, "hidden size"},
    {"--heads", IntegerField{&Arguments::heads, 1}, "attention heads"},
    {"--sequence", IntegerField{&Arguments::sequence, 1}, "tokens per sequence"},
    {"--vocab", IntegerField{&Arguments::vocab, 256}, "vocabulary (tokens are bytes)"},
    {"--micro-batch-size", IntegerField{&Arguments::micro_batch_size, 1},
     "sequences per micro-batch"},
    {"--micro-batches", IntegerField{&Arguments::micro_batches, 1},
     "micro-batches per iteration and data-parallel rank"},
    {"--tp", IntegerField{&Arguments::tp, 1}, "tensor (and sequence) parallel size"},
    {"--cp", IntegerField{&Arguments::cp, 1},
     "context parallel size: ranks that share a sequence's positions"},
    {"--pp", IntegerField{&Arguments::pp, 1}, "pipeline stages"},
    {"--virtual-stages", IntegerField{&Arguments::virtual_stages, 1},
     "chunks of layers per pipeline rank (interleaved 1F1B)"},
    {"--dp", IntegerField{&Arguments::dp, 0},
     "data-parallel size; 0: WORLD_SIZE / (tp * cp * pp), on the CPU 1"},
    {"--experts", IntegerField{&Arguments::experts, 0},
     "experts per layer, one of which takes a row; 0: a dense MLP"},
    {"--ep", IntegerField{&Arguments::ep, 1},
     "expert parallel size: data-parallel ranks that share the experts"},
    {"--router-skew", FloatField{&Arguments::router_skew},
     "draw experts by Zipf's law with this exponent instead of routing"},
    {"--attention",
     ChoiceField{{"batched", "fused"},
                 [](Arguments* arguments, int chosen) {
                   arguments->attention = static_cast<AttentionKind>(chosen);
                 }},
     "batched products and softmax, or one fused kernel: batched, fused"},
    {"--recompute",
     ChoiceField{{"none", "selective", "full"},
                 [](Arguments* arguments, int chosen) {
                   arguments->recompute = static_cast<Recompute>(chosen);
                 }},
     "what backward computes again: none, selective (attention scores), full (layers)"},
    {"--overlap-tp", FlagField{&Arguments::overlap_tp},
     "overlap tensor-parallel communication with backward's matrix products"},
    {"--iterations", IntegerField{&Arguments::iterations, 1}, "iterations"},
    {"--lr", FloatField{&Arguments::lr}, "learning rate"},
    {"--clip-grad", FloatField{&Arguments::clip_grad},
     "clip the gradient norm to this; 0: do not clip"},
    {"--bucket-mb", IntegerField{&Arguments::bucket_mb, 1},
     "MB (10^6 bytes) of fp32 gradients per reduce-scatter"},
    {"--loss-scale", FloatField{&Arguments::loss_scale},
     "factor of the loss in backward; halved, and the step skipped, where it "
     "overflows"},
    {"--loss-scale-window", IntegerField{&Arguments::loss_scale_window, 0},
     "good steps before the factor doubles; 0: never"},
    {"--save", TextField{&Arguments::save}, "folder to save the training state to"},
    {"--save-interval", IntegerField{&Arguments::save_interval, 0},
     "iterations between saves; 0: after the last one only"},
    {"--load", TextField{&Arguments::load}, "folder to go on from"},
    {"--seed", SeedField{}, "seed of the initial weights"},
    {"--data", TextField{&Arguments::data}, "text file; default: a generated text"},
    {"--log-rank", IntegerField{&Arguments::log_rank, -1},
     "rank that writes the log; -1: every rank"},
    {"--extra-all-reduce", FlagField{&Arguments::extra_all_reduce},
     "reduce the gradient norm once more (diagnostic)"},
    {"--overflow-rank", IntegerField{&Arguments::overflow_rank, -1},
     "the gradient of this rank overflows (diagnostic); -1: of none"},
    {"--overflow-iteration", IntegerField{&Arguments::overflow_iteration, 0},
     "in which iteration, from 0"},
    {"--explain", FlagField{&Arguments::explain},
     "print FLOPs and memory in closed form, then exit"},
    {"--reference", FlagField{&Arguments::reference},
     "print the first loss as computed by the CPU, then exit"},
    {"--help", FlagField{&Arguments::help}, "print this text, then exit"},
};

template <typename Number>
Number ParseNumber(const std::string& option, const std::string& word, Number minimum) {
  Number value{};
  const char* end = word.data() + word.size();
  const auto [parsed, error] = std::from_chars(word.data(), end, value);
  // !(>=) so that "nan" is refused, too.
  if (error != std::errc() || parsed != end || !(value >= minimum) ||
      !(value <= std::numeric_limits<Number>::max())) {
    std::ostringstream message;
    message << option << ": '" << word << "' is not a number of at least " << minimum;
    throw UsageError(message.str());
  }
  return value;
}

const Option& FindOption(const std::string& word) {
  for (const Option& option : kOptions) {
    if (word == option.name) {
      return option;
    }
  }
  throw UsageError("unknown option '" + word + "'; see --help");
}

class Assign {
 public:
  Assign(const std::string& option, const std::string& word, Arguments* arguments)
      : option_(option), word_(word), arguments_(arguments) {}

  void operator()(const IntegerField& target) const {
    arguments_->*target.field = ParseNumber<int>(option_, word_, target.minimum);
  }
  void operator()(const FloatField& target) const {
    arguments_->*target.field = ParseNumber<float>(option_, word_, 0.0f);
  }
  void operator()(SeedField) const {
    arguments_->seed = ParseNumber<uint64_t>(option_, word_, 0);
  }
  void operator()(const TextField& target) const { arguments_->*target.field = word_; }
  void operator()(const ChoiceField& target) const {
    for (size_t i = 0; i < target.names.size(); ++i) {
      if (word_ == target.names[i]) {
        target.assign(arguments_, static_cast<int>(i));
        return;
      }
    }
    std::string names;
    for (const char* name : target.names) {
      names += std::string(names.empty() ? "" : ", ") + name;
    }
    throw UsageError(option_ + ": '" + word_ + "' is none of " + names);
  }
  void operator()(const FlagField& target) const { arguments_->*target.field = true; }

 private:
  const std::string& option_;
  const std::string& word_;
  Arguments* arguments_;
};

}  // namespace

Arguments ParseArguments(const std::vector<std::string>& words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i];
    std::string value;
    const size_t equals = name.find('=');
    const bool has_value = equals != std::string::npos;
    if (has_value) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    const Option& option = FindOption(name);
    const bool is_flag = std::holds_alternative<FlagField>(option.target);
    if (is_flag && has_value) {
      throw UsageError(name + " takes no value");
    }
    if (!is_flag && !has_value) {
      if (++i == words.size()) {
        throw UsageError(name + " needs a value");
      }
      value = words[i];
    }
    std::visit(Assign(name, value, &arguments), option.target);
  }
  if (arguments.save_interval > 0 && arguments.save.empty()) {
    throw UsageError("--save-interval needs --save FOLDER");
  }
  return arguments;
}

std::string OptionsText() {
  std::string text;
  for (const Option& option : kOptions) {
    std::string name = option.name;
    if (!std::holds_alternative<FlagField>(option.target)) {
      name += " VALUE";
    }
    name.resize(26, ' ');
    text += "  " + name + option.help + "\n";
  }
  return text;
}

}  // namespace gpt
