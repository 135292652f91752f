// Tells whether two runs ran the same code.
//
// The fingerprint covers the bytes of the program and of every argument that names a
// file (a script, a configuration, a text to train on): what an edit of the code under
// test changes. Libraries and imported modules are not covered.
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_JOB_PROGRAM_FINGERPRINT_H_
#define VRANK_TOOLS_JOB_PROGRAM_FINGERPRINT_H_

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "tools/job/job_flags.h"

namespace vrank::tools {

// "gpt_trainer:1a2b3c4d tokens.txt:99887766": names without folders, CRC-32C of the
// contents. The program is looked up in PATH as a shell would.
absl::StatusOr<std::string> ProgramFingerprint(const std::vector<std::string>& command);

// The same of one file.
absl::StatusOr<std::string> FileFingerprint(const std::string& path);

// Before the fingerprint of a table of kernel times, in CostOptions.
inline constexpr char kKernelTimesOption[] = "kernel_times:";

// What slices of one job, and a job beside its graph, have in common: costs, and what
// else results hang on (stated_options.h). Values as stated, files by their content.
absl::StatusOr<std::string> CostOptions(const JobFlags& flags);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_PROGRAM_FINGERPRINT_H_
