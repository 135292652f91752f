#include "virtual_host/quirks/python_code.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

// CPython's C API, as far as it is asked here (tried: 3.11; the borrowed references
// need no release). Weak: null in a program without Python.
extern "C" {
struct PyObject;
struct PyThreadState;
[[gnu::weak]] PyThreadState* PyGILState_GetThisThreadState();
[[gnu::weak]] PyThreadState* PyThreadState_GetUnchecked();   // since 3.13
[[gnu::weak]] PyThreadState* _PyThreadState_UncheckedGet();  // before
[[gnu::weak]] PyObject* PyEval_GetGlobals();
[[gnu::weak]] PyObject* PyUnicode_InternFromString(const char*);
[[gnu::weak]] PyObject* PyDict_GetItem(PyObject*, PyObject*);
[[gnu::weak]] const char* PyUnicode_AsUTF8AndSize(PyObject*, ptrdiff_t*);
[[gnu::weak]] PyObject* PyErr_Occurred();
[[gnu::weak]] void PyErr_Clear();
}

namespace vrank::host {
namespace {

bool HasPython() {
  return PyGILState_GetThisThreadState != nullptr && PyEval_GetGlobals != nullptr &&
         PyUnicode_InternFromString != nullptr && PyDict_GetItem != nullptr &&
         PyUnicode_AsUTF8AndSize != nullptr && PyErr_Occurred != nullptr &&
         PyErr_Clear != nullptr;
}

// PyGILState_Check says yes wherever a program has subinterpreters.
bool HoldsInterpreter() {
  PyThreadState* const own = PyGILState_GetThisThreadState();
  if (own == nullptr)
    return false;
  if (PyThreadState_GetUnchecked != nullptr)
    return own == PyThreadState_GetUnchecked();
  return _PyThreadState_UncheckedGet != nullptr && own == _PyThreadState_UncheckedGet();
}

// The module of the innermost Python function; empty without one. Makes no objects but
// the key, once: the caller may be at work in the interpreter's memory.
std::string_view CurrentModule() {
  static PyObject* const key = PyUnicode_InternFromString("__name__");
  PyObject* const globals = PyEval_GetGlobals();
  PyObject* const name =
      globals == nullptr || key == nullptr ? nullptr : PyDict_GetItem(globals, key);
  const bool failed = PyErr_Occurred() != nullptr;
  ptrdiff_t length = 0;
  const char* const text =
      name == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(name, &length);
  if (text != nullptr)
    return {text, static_cast<size_t>(length)};
  if (name != nullptr && !failed)
    PyErr_Clear();  // a name that is no text
  return {};
}

}  // namespace

PythonWait CurrentPythonWait() {
  static constexpr struct {
    std::string_view module;
    PythonWait wait;
  } kModules[] = {
      {"asyncio", PythonWait::kByPoll},         {"concurrent", PythonWait::kByLock},
      {"multiprocessing", PythonWait::kByPoll}, {"queue", PythonWait::kByLock},
      {"selectors", PythonWait::kByPoll},       {"threading", PythonWait::kByLock}};
  if (!HasPython() || !HoldsInterpreter())
    return PythonWait::kNone;
  std::string_view module = CurrentModule();
  module = module.substr(0, module.find('.'));
  const auto* const found =
      std::find_if(std::begin(kModules), std::end(kModules),
                   [&](const auto& known) { return known.module == module; });
  return found == std::end(kModules) ? PythonWait::kNone : found->wait;
}

}  // namespace vrank::host
