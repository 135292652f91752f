// Where the threads of a Python program are: the innermost function that is not one of
// the modules that wait, with its source line. So a lock has the program's own name.
//
// Asked only where the run is about to end (process/thread_report.h): a few lines of
// Python run in a thread of ours, once its interpreter's lock is free. That works for
// every version of the interpreter.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "virtual_host/process/thread_report.h"

// Weak: null in a program without Python, or that loads it later (dlopen).
extern "C" {
[[gnu::weak]] int Py_IsInitialized();
[[gnu::weak]] int PyGILState_Ensure();
[[gnu::weak]] void PyGILState_Release(int);
[[gnu::weak]] int PyRun_SimpleString(const char*);
}

namespace vrank::host {
namespace {

// One line per thread: number, whether the place is where it waits, name, place,
// separated by tabs.
constexpr char kProgram[] = R"(
def _vrank_places(descriptor):
    import linecache, os, sys, threading
    waiting = {"threading", "queue", "multiprocessing", "concurrent", "asyncio",
               "selectors", "socket", "subprocess"}
    here = os.path.join(os.getcwd(), "")
    threads = {thread.ident: thread for thread in list(threading._active.values())}
    for ident, frame in sys._current_frames().items():
        thread = threads.get(ident)
        if thread is None or not thread.native_id:
            continue
        # After a fork it may still have the number of the parent's thread.
        number = os.getpid() if thread is threading.main_thread() else thread.native_id
        inner = frame
        while frame and str(frame.f_globals.get("__name__")).split(".")[0] in waiting:
            frame = frame.f_back
        own, frame = frame is inner, frame or inner
        file = frame.f_code.co_filename
        line = linecache.getline(file, frame.f_lineno).strip()
        if here != os.sep:
            file = file.removeprefix(here)
        place = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
        text = [str(number), "1" if own else "0", thread.name[:80],
                place + (f": `{line[:120]}`" if line else "")]
        text = "\t".join(part.replace("\t", " ").replace("\n", " ") for part in text)
        os.write(descriptor, (text + "\n").encode(errors="replace"))
try:
    _vrank_places(%d)
except Exception:
    pass
)";

std::string ReadAll(int descriptor) {
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t got =
        pread(descriptor, piece, sizeof piece, static_cast<off_t>(text.size()));
    if (got <= 0)
      return text;
    text.append(piece, static_cast<size_t>(got));
  }
}

std::vector<ThreadPlace> Parse(const std::string& text) {
  std::vector<ThreadPlace> places;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    const size_t third =
        line.find('\t', second == std::string::npos ? second : second + 1);
    if (third != std::string::npos)
      places.push_back({atoi(line.c_str()), line.substr(second + 1, third - second - 1),
                        line.substr(third + 1), line[first + 1] == '1'});
    begin = end + 1;
  }
  return places;
}

ThreadPlaces PythonPlaces(bool wanted) {
  if (Py_IsInitialized == nullptr || PyGILState_Ensure == nullptr ||
      PyGILState_Release == nullptr || PyRun_SimpleString == nullptr ||
      Py_IsInitialized() == 0)
    return {};
  const int file = wanted ? memfd_create("places", 0) : -1;
  if (file < 0)
    return {.is_running = true, .places = {}};
  char program[sizeof kProgram + 16];
  snprintf(program, sizeof program, kProgram, file);
  const int held = PyGILState_Ensure();
  PyRun_SimpleString(program);
  PyGILState_Release(held);
  ThreadPlaces found{.is_running = true, .places = Parse(ReadAll(file))};
  close(file);
  return found;
}

[[gnu::constructor]] void OfferPlaces() {
  places_of_threads = PythonPlaces;
}

}  // namespace
}  // namespace vrank::host
