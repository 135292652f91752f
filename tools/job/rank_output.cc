#include "tools/job/rank_output.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/interruption.h"
#include "emulator/launch/launcher_command.h"
#include "tools/terminal/output_style.h"
#include "tools/terminal/say.h"
#include "tools/terminal/terminal_text.h"

namespace vrank::tools {
namespace {

constexpr std::chrono::seconds kLineEvery{5};
constexpr char kNote[] =
    "vrank: no GPU computes here: times and memory are predictions, but a loss that "
    "the program prints is no loss\n";

}  // namespace

RankOutput::RankOutput(bool quiet, std::string subject, bool computes)
    : quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      subject_(std::move(subject)),
      note_shown_(computes),
      last_line_(std::chrono::steady_clock::now()) {}

RankOutput::~RankOutput() {
  Clear();
}

void RankOutput::Clear() {
  if (line_shown_)
    Say("\r\033[K");
  line_shown_ = false;
}

void RankOutput::Line(int32_t rank, bool is_stderr, std::string_view line) {
  if (quiet_) {
    std::deque<std::string>& tail = tails_[rank];
    tail.emplace_back(line);
    if (tail.size() > kTailLines)
      tail.pop_front();
    return;
  }
  Clear();
  if (!note_shown_ && !is_stderr) {
    note_shown_ = true;
    Say("{}", kNote);
  }
  Show(rank, line);
}

void RankOutput::Show(int32_t rank, std::string_view line) const {
  const std::string from = launcher_.empty() ? fmt::format("rank {}", rank) : launcher_;
  Say("[{}] {}\n", from, terminal_ ? TerminalText(line) : std::string(line));
}

void RankOutput::Note(const std::string& text) {
  Clear();
  Say("vrank: {}\n", text);
}

void RankOutput::Update(const emulator::Progress& progress) {
  if (quiet_)
    return;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ && now - last_line_ < kLineEvery)
    return;
  last_line_ = now;
  // Those that a program does not annotate are found at its end.
  const std::string iterations =
      progress.iterations == 0 ? ""
                               : fmt::format("{} iterations, ", progress.iterations);
  std::string text = fmt::format(
      "{}: {} of {} real ranks running, {}{} operations, virtual time {}", subject_,
      progress.connected - progress.ended, progress.real_ranks, iterations,
      FormatCount(progress.ops), FormatTime(progress.virtual_ns));
  if (terminal_)
    Say("\r\033[K{}", text);
  else if (text != last_text_)
    Say("{}\n", text);
  last_text_ = std::move(text);
  std::fflush(stderr);
  line_shown_ = terminal_;
}

void RankOutput::ShowTail() {
  if (Interruption() != 0)
    return;  // not what the ranks said is why
  for (const auto& [rank, lines] : tails_)
    for (const std::string& line : lines)
      Show(rank, line);
}

RunOptions OptionsWithOutput(const Job& job, RankOutput* output) {
  const JobFlags& flags = job.flags();
  if (flags.launcher)
    output->set_launcher(emulator::LauncherName(job.command()));
  RunOptions options;
  options.log_dir = flags.log_dir;
  options.on_line = [output](int32_t rank, bool is_stderr, std::string_view line) {
    output->Line(rank, is_stderr, line);
  };
  options.on_progress = [output](const emulator::Progress& progress) {
    output->Update(progress);
  };
  options.on_note = [output](const std::string& text) { output->Note(text); };
  return options;
}

}  // namespace vrank::tools
