// Which Python code reads the clock: the modules of its standard library that wait
// (queue, threading, multiprocessing), or the program itself.
//
// A queue computes from the clock how long it may still wait: multiprocessing.Queue.get
// reads it seven times. How many gets there are before the wanted item comes, and how
// many looks within one, says how fast other threads and processes are in real time,
// not what the program does: a data loader's workers come in any order. So such
// readings cost no time; those of the program itself do.
//
// Thread rule: any thread; legal in a signal handler.

#ifndef VRANK_VIRTUAL_HOST_QUIRKS_PYTHON_CODE_H_
#define VRANK_VIRTUAL_HOST_QUIRKS_PYTHON_CODE_H_

namespace vrank::host {

enum class PythonWait {
  kNone,
  kByLock,  // queue, threading, concurrent
  kByPoll,  // asyncio, multiprocessing, selectors
};
// Where the calling thread runs Python (it holds the interpreter's lock): of which kind
// the innermost Python function's module is. kNone without an interpreter, and with one
// that was loaded after the program's start (dlopen).
PythonWait CurrentPythonWait();

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_QUIRKS_PYTHON_CODE_H_
