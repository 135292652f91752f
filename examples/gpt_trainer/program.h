// What the programs of both backends share: the command line and a rank's life.

#ifndef EXAMPLES_GPT_TRAINER_PROGRAM_H_
#define EXAMPLES_GPT_TRAINER_PROGRAM_H_

#include <functional>

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/world.h"

namespace gpt {

// Reads the command line, prints what it asks for or calls `train`. Returns the exit
// code: 2 where the command line is wrong, 1 where training failed. `start`: how the
// program is started, for --help, above the options.
int RunProgram(int argc, char** argv, const char* start,
               const std::function<void(const Arguments&)>& train);

// Trains as this rank, from the first to the last iteration. Where it saves is looked
// at before the first one.
void TrainRank(const Arguments& arguments, const World& world);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PROGRAM_H_
