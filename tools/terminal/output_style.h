// How numbers and tables look in the terminal.
//
// Thread rule: pure functions and plain values.

#ifndef VRANK_TOOLS_TERMINAL_OUTPUT_STYLE_H_
#define VRANK_TOOLS_TERMINAL_OUTPUT_STYLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vrank::tools {

std::string FormatTime(int64_t ns);       // "12.345 ms", "0 ns"
std::string FormatBytes(double bytes);    // "45.20 GiB"
std::string FormatCount(uint64_t count);  // "1,234,567"
std::string FormatFlops(double flops);    // "312.4 TFLOP"
std::string FormatPercent(double share);  // "97.8 %"; never "0.0 %" for a part
// A kernel's name, to fit a table: where it is long without result, parameters and the
// namespaces that all of PyTorch's have, and then without its middle.
std::string Shortened(const std::string& name);
// Said of the time that assumed work weighs as (graph::WorkCost::unseen_ns).
inline constexpr char kIfItReadsAll[] = "if it reads all that it can reach";
inline constexpr char kUnseenHead[] = "up to, if it reads all that it can reach";

// Rows of cells; the first column is aligned to the left, the others to the right.
class Table {
 public:
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  // Each line begins with `indent` spaces and ends with a line break.
  std::string ToString(size_t indent) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_TERMINAL_OUTPUT_STYLE_H_
