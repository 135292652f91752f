#include "tools/commands.h"

#include "tools/build_command.h"
#include "tools/calibrate_command.h"
#include "tools/compare_command.h"
#include "tools/completion_command.h"
#include "tools/demo_command.h"
#include "tools/doctor_command.h"
#include "tools/emulate_command.h"
#include "tools/import_command.h"
#include "tools/kernels_command.h"
#include "tools/plan_command.h"
#include "tools/replay_command.h"
#include "tools/scale_command.h"
#include "tools/trace_command.h"
#include "tools/validate_command.h"

namespace vrank::tools {
namespace {

constexpr Command kCommands[] = {
    {"build", "make the execution graph of a job from slices", RunBuildCommand},
    {"calibrate", "make a cluster description from nccl-tests logs of a site",
     RunCalibrateCommand},
    {"compare", "say what a change does to a job, and fail where it may not",
     RunCompareCommand},
    {"completion", "print the completion script of a shell", RunCompletionCommand},
    {"demo", "emulate a 1,024-rank training job on this machine", RunDemoCommand},
    {"doctor", "say what this machine can do, and what is missing", RunDoctorCommand},
    {"emulate", "run a few ranks of a job for real and play the others",
     RunEmulateCommand},
    {"import", "make an execution graph from profiles of somebody else's run",
     RunImportCommand},
    {"kernels", "list a graph's kernels; collect their times from a real GPU",
     RunKernelsCommand},
    {"plan", "say which ranks of a job to trace, and why", RunPlanCommand},
    {"replay", "play an execution graph and say where the time goes", RunReplayCommand},
    {"scale", "rewrite a graph for another number of data-parallel replicas",
     RunScaleCommand},
    {"trace", "record what some ranks of a job do, slice by slice", RunTraceCommand},
    {"validate", "compare a fully real run of a small job with emulated ones",
     RunValidateCommand},
};

}  // namespace

std::span<const Command> Commands() {
  return kCommands;
}

const char* Version() {
  return VRANK_VERSION;
}

}  // namespace vrank::tools
