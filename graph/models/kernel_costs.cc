// Compiling and evaluating cost files with muParser.
//
// muParser reports by exceptions; every call that may throw is wrapped here, so that
// the rest of the program sees absl::Status.

#include "graph/models/kernel_costs.h"

#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/pattern.h"
#include "base/status_macros.h"
#include "base/text_proto.h"
#include "graph/models/description_file.h"

namespace vrank::graph {
namespace {

double CeilDiv(double a, double b) {
  return std::ceil(a / b);
}
double Ceil(double a) {
  return std::ceil(a);
}
double Floor(double a) {
  return std::floor(a);
}

}  // namespace

// Shared by all expressions: they hold pointers into it.
struct KernelCosts::Variables {
  double grid[3] = {1, 1, 1};
  double block[3] = {1, 1, 1};
  double blocks = 1;
  double threads = 1;
  double shared = 0;
  double multiprocessors = 1;
  double arguments[kMaxArguments];
  double captures[kMaxCaptures] = {};

  Variables() { std::fill(std::begin(arguments), std::end(arguments), 1.0); }

  void Bind(mu::Parser* parser) {
    const char* const axes[] = {"x", "y", "z"};
    for (int i = 0; i < 3; ++i) {
      parser->DefineVar(fmt::format("grid_{}", axes[i]), &grid[i]);
      parser->DefineVar(fmt::format("block_{}", axes[i]), &block[i]);
    }
    parser->DefineVar("blocks", &blocks);
    parser->DefineVar("threads", &threads);
    parser->DefineVar("shared", &shared);
    parser->DefineVar("multiprocessors", &multiprocessors);
    for (int i = 0; i < kMaxArguments; ++i) {
      parser->DefineVar(fmt::format("arg{}", i), &arguments[i]);
    }
    for (size_t i = 0; i < kMaxCaptures; ++i) {
      parser->DefineVar(fmt::format("m{}", i + 1), &captures[i]);
    }
    parser->DefineFun("ceildiv", CeilDiv);
    parser->DefineFun("ceil", Ceil);
    parser->DefineFun("floor", Floor);
  }

  void Set(const Launch& launch) {
    for (int i = 0; i < 3; ++i) {
      grid[i] = launch.grid[i];
      block[i] = launch.block[i];
    }
    blocks = grid[0] * grid[1] * grid[2];
    threads = blocks * block[0] * block[1] * block[2];
    shared = launch.shared_bytes;
    multiprocessors = launch.multiprocessors;
  }
};

struct KernelCosts::Compiled {
  std::string subject;  // the file, and the line
  KernelCostEntry source;
  Entry entry;
  Pattern pattern;
  mu::Parser bytes;
  mu::Parser flops;
  mu::Parser instructions;  // has an expression if source.instructions() does
  mu::Parser flight, exchanges, working_blocks;  // likewise
  std::vector<mu::Parser> issued;                // of each of source.reached()
  std::vector<double> fields;  // values of entry.fields, which the expressions point to

  std::string Kernel() const {
    return source.name().empty() ? source.regex() : source.name();
  }
  std::string Where(const char* field, const std::string& expression) const {
    return fmt::format("{}: kernel '{}', {} = \"{}\"", subject, Kernel(), field,
                       expression);
  }

  // Compiles one expression; adds the arguments that it uses.
  absl::Status Compile(const char* field, const std::string& expression,
                       Variables* variables, mu::Parser* parser,
                       std::set<uint32_t>* used) {
    if (expression.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: is missing; write 0 if the kernel has none", Where(field, "")));
    }
    try {
      variables->Bind(parser);
      for (size_t i = 0; i < fields.size(); ++i) {
        parser->DefineVar(entry.fields[i].name, &fields[i]);
      }
      parser->SetExpr(expression);
      for (const auto& [name, value] : parser->GetUsedVar()) {
        const int argument =
            static_cast<int>(value - static_cast<double*>(variables->arguments));
        if (argument >= 0 && argument < kMaxArguments) {
          used->insert(static_cast<uint32_t>(argument));
        }
      }
      parser->Eval();
    } catch (const mu::Parser::exception_type& error) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}", Where(field, expression), error.GetMsg()));
    }
    // What hangs on nothing is wrong for every launch: known before a run starts.
    return parser->GetUsedVar().empty() ? Evaluate(field, expression, *parser).status()
                                        : absl::OkStatus();
  }

  // REQUIRES: both expressions are compiled.
  absl::Status CheckNotEmpty() const {
    const auto is_zero = [](const mu::Parser& parser) {
      return parser.GetUsedVar().empty() && parser.Eval() == 0;
    };
    if (is_zero(bytes) && is_zero(flops)) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: kernel '{}': bytes and flops are both 0, so that every launch "
          "would be free; give what it reads and writes, or leave the entry "
          "out",
          subject, Kernel()));
    }
    return absl::OkStatus();
  }

  // Before the expressions, which use the names.
  absl::Status CompileFields() {
    ASSIGN_OR_RETURN(entry.fields, FieldsOf(source));
    fields.assign(entry.fields.size(), 1.0);
    entry.unhidden = source.unhidden();
    entry.lists = source.chunks_size() > 0;
    if (!(source.unhidden() >= 0 && source.unhidden() <= 1)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: kernel '{}': unhidden {}, which is no share", subject,
                      Kernel(), source.unhidden()));
    }
    for (const ReachedShare& reached : source.reached()) {
      if (!(reached.share() > 0 && reached.share() <= 1)) {
        return absl::InvalidArgumentError(
            fmt::format("{}: kernel '{}': reached {}, which is no share of a peak",
                        subject, Kernel(), reached.share()));
      }
    }
    return absl::OkStatus();
  }

  // Expressions that an entry may do without.
  absl::Status CompileOptional(Variables* variables, std::set<uint32_t>* used) {
    if (!source.instructions().empty()) {
      RETURN_IF_ERROR(Compile("instructions", source.instructions(), variables,
                              &instructions, used));
    }
    if (!source.flight().empty())
      RETURN_IF_ERROR(Compile("flight", source.flight(), variables, &flight, used));
    if (!source.exchanges().empty()) {
      RETURN_IF_ERROR(
          Compile("exchanges", source.exchanges(), variables, &exchanges, used));
    }
    if (!source.working_blocks().empty())
      RETURN_IF_ERROR(Compile("working_blocks", source.working_blocks(), variables,
                              &working_blocks, used));
    issued.resize(static_cast<size_t>(source.reached_size()));
    for (size_t i = 0; i < issued.size(); ++i) {
      const std::string& expression = source.reached(static_cast<int>(i)).issued();
      if (!expression.empty())
        RETURN_IF_ERROR(Compile("issued", expression, variables, &issued[i], used));
    }
    return absl::OkStatus();
  }

  // What the unit reaches on this GPU.
  absl::Status EvaluateReached(uint32_t compute_major, Work* work) const {
    for (size_t i = 0; i < issued.size(); ++i) {
      const ReachedShare& reached = source.reached(static_cast<int>(i));
      if (reached.compute_major() != compute_major)
        continue;
      work->reached = reached.share();
      work->assumed = reached.assumed();
      if (!reached.issued().empty()) {
        ASSIGN_OR_RETURN(work->issued, Evaluate("issued", reached.issued(), issued[i]));
      }
      break;
    }
    return absl::OkStatus();
  }

  absl::Status CompileMatch() {
    if (source.name().empty() == source.regex().empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: kernel '{}': give either name or regex", subject, Kernel()));
    }
    if (source.regex().empty())
      return absl::OkStatus();
    auto compiled = Pattern::Compile(source.regex());
    if (!compiled.ok())
      return absl::InvalidArgumentError(
          fmt::format("{}: regex '{}': {}", subject, source.regex(),
                      std::string(compiled.status().message())));
    pattern = *std::move(compiled);
    return absl::OkStatus();
  }

  bool Matches(const std::string& demangled, std::vector<double>* captures) const {
    Pattern::Groups groups;
    if (!pattern.Matches(demangled, kMaxCaptures, &groups)) {
      return false;
    }
    for (const std::optional<std::string_view>& group : groups) {
      const std::optional<double> value =
          group ? CaptureValue(std::string(*group)) : 0.0;
      if (!value) {
        return false;
      }
      captures->push_back(*value);
    }
    return true;
  }

  absl::StatusOr<double> Evaluate(const char* field, const std::string& expression,
                                  const mu::Parser& parser) const {
    double value = 0;
    try {
      value = parser.Eval();
    } catch (const mu::Parser::exception_type& error) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}", Where(field, expression), error.GetMsg()));
    }
    if (!std::isfinite(value) || value < 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: gives {}, which is no amount; correct the expression",
                      Where(field, expression), value));
    }
    if (value > kMost) {
      return absl::InvalidArgumentError(
          fmt::format("{}: gives {}, which no launch reaches (at most {} are taken); "
                      "correct the expression",
                      Where(field, expression), value, kMost));
    }
    return value;
  }
};

KernelCosts::KernelCosts() : variables_(std::make_unique<Variables>()) {}
KernelCosts::~KernelCosts() = default;
KernelCosts::KernelCosts(KernelCosts&&) noexcept = default;
KernelCosts& KernelCosts::operator=(KernelCosts&&) noexcept = default;

absl::Status KernelCosts::AddFile(const std::string& path, Strictness strictness) {
  KernelCostFile file;
  google::protobuf::TextFormat::ParseInfoTree places;
  RETURN_IF_ERROR(ReadTextProto(path, &file, &places));
  std::vector<int> lines;
  for (int i = 0; i < file.kernel_size(); ++i) {
    lines.push_back(
        places.GetLocation(file.GetDescriptor()->FindFieldByName("kernel"), i).line +
        1);
  }
  return Add(file, path, lines, strictness);
}

absl::Status KernelCosts::Add(const KernelCostFile& file, const std::string& subject,
                              const std::vector<int>& lines, Strictness strictness) {
  std::vector<std::string> problems;
  for (int i = 0; i < file.kernel_size(); ++i) {
    const KernelCostEntry& source = file.kernel(i);
    auto compiled = std::make_unique<Compiled>();
    compiled->subject = fmt::format("'{}'", subject);
    if (static_cast<size_t>(i) < lines.size()) {
      compiled->subject += fmt::format(", line {}", lines[static_cast<size_t>(i)]);
    }
    compiled->source = source;
    compiled->entry.index = static_cast<uint32_t>(compiled_.size());
    compiled->entry.unit = source.unit();
    compiled->entry.may_not_fit = strictness == Strictness::kUndescribed;
    std::set<uint32_t> used;
    const absl::Status results[] = {
        compiled->CompileMatch(), compiled->CompileFields(),
        compiled->Compile("bytes", source.bytes(), variables_.get(), &compiled->bytes,
                          &used),
        compiled->Compile("flops", source.flops(), variables_.get(), &compiled->flops,
                          &used),
        compiled->CompileOptional(variables_.get(), &used)};
    const size_t known = problems.size();
    for (const absl::Status& result : results) {
      if (!result.ok()) {
        problems.push_back(std::string(result.message()));
      }
    }
    if (problems.size() == known) {
      if (const absl::Status empty = compiled->CheckNotEmpty(); !empty.ok()) {
        problems.push_back(std::string(empty.message()));
      }
    }
    compiled->entry.arguments.assign(used.begin(), used.end());
    compiled_.push_back(std::move(compiled));
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "; ")));
  }
  return absl::OkStatus();
}

const KernelCosts::Entry* KernelCosts::Find(const std::string& mangled,
                                            std::vector<double>* captures) const {
  const std::string demangled = Demangle(mangled);
  const std::string qualified = QualifiedName(demangled);
  const size_t scope = qualified.rfind("::");
  const std::string base =
      scope == std::string::npos ? qualified : qualified.substr(scope + 2);
  for (const auto& compiled : compiled_) {
    const std::string& name = compiled->source.name();
    std::vector<double> values;
    const bool matches = name.empty() ? compiled->Matches(demangled, &values)
                                      : name == qualified || name == base;
    if (matches) {
      if (captures != nullptr) {
        *captures = std::move(values);
      }
      return &compiled->entry;
    }
  }
  return nullptr;
}

absl::StatusOr<KernelCosts::Work> KernelCosts::Evaluate(
    const Entry& entry, const Launch& launch, std::span<const double> values,
    std::span<const double> captures) {
  Compiled& compiled = *compiled_[entry.index];
  variables_->Set(launch);
  std::copy(captures.begin(), captures.end(), variables_->captures);
  for (size_t i = 0; i < entry.arguments.size(); ++i) {
    variables_->arguments[entry.arguments[i]] = values[i];
  }
  std::copy(values.begin() + static_cast<ptrdiff_t>(entry.arguments.size()),
            values.end(), compiled.fields.begin());
  Work work;
  ASSIGN_OR_RETURN(work.bytes,
                   compiled.Evaluate("bytes", compiled.source.bytes(), compiled.bytes));
  ASSIGN_OR_RETURN(work.flops,
                   compiled.Evaluate("flops", compiled.source.flops(), compiled.flops));
  if (const std::string& text = compiled.source.instructions(); !text.empty()) {
    ASSIGN_OR_RETURN(work.instructions,
                     compiled.Evaluate("instructions", text, compiled.instructions));
  }
  if (const std::string& text = compiled.source.flight(); !text.empty()) {
    ASSIGN_OR_RETURN(work.flight, compiled.Evaluate("flight", text, compiled.flight));
  }
  if (const std::string& text = compiled.source.exchanges(); !text.empty()) {
    ASSIGN_OR_RETURN(work.exchanges,
                     compiled.Evaluate("exchanges", text, compiled.exchanges));
  }
  work.blocks = variables_->blocks;
  if (const std::string& text = compiled.source.working_blocks(); !text.empty()) {
    ASSIGN_OR_RETURN(work.blocks, compiled.Evaluate("working_blocks", text,
                                                    compiled.working_blocks));
  }
  RETURN_IF_ERROR(compiled.EvaluateReached(launch.compute_major, &work));
  return work;
}

std::string KernelCosts::Describe(const Entry& entry) const {
  const Compiled& compiled = *compiled_[entry.index];
  return fmt::format("{}: kernel '{}'", compiled.subject, compiled.Kernel());
}

}  // namespace vrank::graph
