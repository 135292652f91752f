// The provenance of a run of real ranks (provenance.h).
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_JOB_RUN_PROVENANCE_H_
#define VRANK_TOOLS_JOB_RUN_PROVENANCE_H_

#include <map>
#include <string>

#include "tools/job/job.h"
#include "tools/job/provenance.h"

namespace vrank::tools {

// What cannot be read any more (a script that is gone) is empty.
Provenance ProvenanceOf(const Job& job, const Run& run);
// `software` of the first real rank that has any, with this vrank.
std::map<std::string, std::string> SoftwareOf(const Run& run);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_RUN_PROVENANCE_H_
