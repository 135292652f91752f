// Reports to the emulator, on request, what each thread of this process waits for and
// which thread holds it: for the error about a job that is stuck.
//
// The emulator sends a signal, since no thread of a stuck process looks at anything. A
// thread that the handler starts writes the report (protocol::ThreadReport). No other
// thread runs by then, and the process is about to be ended.
//
// Thread rule: any thread, once.

#ifndef VRANK_VIRTUAL_HOST_PROCESS_THREAD_REPORT_H_
#define VRANK_VIRTUAL_HOST_PROCESS_THREAD_REPORT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/guest/protocol.h"

namespace vrank::host {

// Where a thread is, in the words of the language that it runs.
struct ThreadPlace {
  pid_t tid = 0;
  std::string name;  // the program's for the thread
  std::string at;    // "train.py:12 in step: `with lock:`"
  // That is where it waits itself, not a module of the language that waits for it.
  bool is_of_program = false;
};
struct ThreadPlaces {
  bool is_running = false;  // the language's interpreter
  std::vector<ThreadPlace> places;
};
// Of the threads that run that language. `wanted`: it may never return, where one of
// them holds what it needs; else there are no places.
using PlacesOfThreads = ThreadPlaces (*)(bool wanted);
// Set by quirks/python_places.cc.
extern constinit PlacesOfThreads places_of_threads;

// From now on questions in `segment` are answered, which outlives the process. Again in
// the child after fork.
void AnswerThreadQuestions(protocol::Segment* segment);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_PROCESS_THREAD_REPORT_H_
