#include "tools/commands/commands.h"

#include "tools/commands/build_command.h"
#include "tools/commands/calibrate_command.h"
#include "tools/commands/compare_command.h"
#include "tools/commands/completion_command.h"
#include "tools/commands/demo_command.h"
#include "tools/commands/doctor_command.h"
#include "tools/commands/emulate_command.h"
#include "tools/commands/import_command.h"
#include "tools/commands/kernels_command.h"
#include "tools/commands/plan_command.h"
#include "tools/commands/replay_command.h"
#include "tools/commands/scale_command.h"
#include "tools/commands/trace_command.h"
#include "tools/commands/validate_command.h"

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

}  // namespace vrank::tools
