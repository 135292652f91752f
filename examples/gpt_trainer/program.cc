// Errors become one line and an exit code here.

#include "examples/gpt_trainer/program.h"

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "examples/gpt_trainer/checkpoint.h"
#include "examples/gpt_trainer/closed_form.h"
#include "examples/gpt_trainer/iteration_log.h"
#include "examples/gpt_trainer/reference.h"
#include "examples/gpt_trainer/trainer.h"

namespace gpt {
namespace {

void Run(const Arguments& arguments, const char* start,
         const std::function<void(const Arguments&)>& train) {
  if (arguments.help) {
    std::fputs((start + OptionsText()).c_str(), stdout);
  } else if (arguments.explain) {
    std::fputs(
        Explain(arguments, MakeModelShape(arguments, 0, sizeof(Element))).c_str(),
        stdout);
  } else if (arguments.reference) {
    std::printf(
        "reference loss %.6f\n",
        ReferenceLoss(arguments, MakeModelShape(arguments, 0, sizeof(Element))));
  } else {
    train(arguments);
  }
}

}  // namespace

int RunProgram(int argc, char** argv, const char* start,
               const std::function<void(const Arguments&)>& train) {
  try {
    Run(ParseArguments({argv + 1, argv + argc}), start, train);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "gpt_trainer: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt_trainer: %s\n", error.what());
    return 1;
  }
}

void TrainRank(const Arguments& arguments, const World& world) {
  const ModelShape shape = MakeModelShape(arguments, world.size, sizeof(Element));
  const IterationLog log(arguments, shape, world.rank);
  if (!arguments.save.empty()) {
    CheckCheckpointFolder(arguments.save, world.rank);
  }
  log.Start();
  Trainer trainer(arguments, world, shape);
  const int first = arguments.load.empty() ? 0 : trainer.Load(arguments.load);
  if (first >= arguments.iterations) {
    throw std::runtime_error("--iterations " + std::to_string(arguments.iterations) +
                             ": '" + arguments.load + "' holds the state after " +
                             std::to_string(first) +
                             "; ask for more of them, counted from the beginning");
  }
  for (int iteration = first; iteration < arguments.iterations; ++iteration) {
    const IterationResult result = trainer.RunIteration(iteration);
    log.Iteration(iteration, result, trainer.memory());
    const int done = iteration + 1;
    const bool due = arguments.save_interval > 0 && done % arguments.save_interval == 0;
    if (!arguments.save.empty() && (due || done == arguments.iterations)) {
      trainer.Save(arguments.save, done);
    }
  }
  log.End(trainer.memory());
}

}  // namespace gpt
