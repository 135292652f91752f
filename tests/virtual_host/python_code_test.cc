#include "virtual_host/quirks/python_code.h"

#include <cstddef>
#include <cstring>

#include <gtest/gtest.h>

// As much of an interpreter as is asked: every object is a text, and the globals of a
// function are the name of its module.
struct PyObject {
  const char* text;
};
struct PyThreadState {};

namespace {

PyThreadState own, other;
struct {
  PyThreadState* running = nullptr;  // who holds the lock
  PyObject module{nullptr};          // of the innermost function
  bool in_function = true;
  bool failed = false;
  bool is_text = true;
} python;

}  // namespace

extern "C" {
PyThreadState* PyGILState_GetThisThreadState() {
  return &own;
}
PyThreadState* PyThreadState_GetUnchecked() {
  return python.running;
}
PyObject* PyEval_GetGlobals() {
  return python.in_function ? &python.module : nullptr;
}
PyObject* PyUnicode_InternFromString(const char* text) {
  static PyObject key{text};
  EXPECT_STREQ(text, "__name__");
  return &key;
}
PyObject* PyDict_GetItem(PyObject* globals, PyObject* key) {
  EXPECT_STREQ(key->text, "__name__");
  return globals->text == nullptr ? nullptr : globals;
}
const char* PyUnicode_AsUTF8AndSize(PyObject* text, ptrdiff_t* length) {
  if (!python.is_text) {
    python.failed = true;
    return nullptr;
  }
  *length = static_cast<ptrdiff_t>(strlen(text->text));
  return text->text;
}
PyObject* PyErr_Occurred() {
  return python.failed ? &python.module : nullptr;
}
void PyErr_Clear() {
  python.failed = false;
}
}

namespace vrank::host {
namespace {

class PythonCodeTest : public ::testing::Test {
 protected:
  PythonCodeTest() {
    python = {};
    python.running = &own;
  }
  static PythonWait WaitOf(const char* module) {
    python.module.text = module;
    return CurrentPythonWait();
  }
  static bool Waits(const char* module) { return WaitOf(module) != PythonWait::kNone; }
};

TEST_F(PythonCodeTest, ModulesThatWait) {
  for (const char* module : {"queue", "threading", "concurrent.futures.thread"})
    EXPECT_EQ(WaitOf(module), PythonWait::kByLock) << module;
  for (const char* module : {"selectors", "multiprocessing.queues",
                             "multiprocessing.connection", "asyncio.base_events"})
    EXPECT_EQ(WaitOf(module), PythonWait::kByPoll) << module;
}

TEST_F(PythonCodeTest, OthersDoNot) {
  for (const char* module :
       {"__main__", "train", "queues", "threading2", "my.queue", ""})
    EXPECT_FALSE(Waits(module)) << module;
  EXPECT_FALSE(Waits(nullptr));  // a function without a module
}

TEST_F(PythonCodeTest, AThreadThatRunsNoPython) {
  python.running = &other;
  EXPECT_FALSE(Waits("queue"));
  python.running = nullptr;
  EXPECT_FALSE(Waits("queue"));
  python.running = &own;
  python.in_function = false;
  EXPECT_FALSE(Waits("queue"));
}

TEST_F(PythonCodeTest, ANameThatIsNoTextLeavesNoErrorBehind) {
  python.is_text = false;
  EXPECT_FALSE(Waits("queue"));
  EXPECT_FALSE(python.failed);
  python.failed = true;  // the program's own error stays
  EXPECT_FALSE(Waits("queue"));
  EXPECT_TRUE(python.failed);
}

}  // namespace
}  // namespace vrank::host
