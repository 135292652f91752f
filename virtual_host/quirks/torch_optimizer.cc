#include "virtual_host/quirks/torch_optimizer.h"

// Weak: null in a program without Python, or that loads it later (dlopen).
extern "C" {
[[gnu::weak]] int Py_AddPendingCall(int (*call)(void*), void* argument);
[[gnu::weak]] int PyRun_SimpleString(const char*);
}

namespace vrank::host {
namespace {

// Defines nothing in the program's own modules. The hook is of PyTorch's public
// interface (tried: 2.11, 2.15); a PyTorch without it is left alone. Marks are recorded
// as the program's own NVTX ranges are.
constexpr char kProgram[] = R"(exec('''
import sys, weakref

def mark_steps():
    optim = sys.modules.get("torch.optim.optimizer")
    register = getattr(optim, "register_optimizer_step_post_hook", None)
    torch = sys.modules.get("torch")
    nvtx = getattr(getattr(torch, "_C", None), "_nvtx", None)
    if register is None or nvtx is None or not hasattr(torch, "compiler"):
        return
    is_compiling, mark = torch.compiler.is_compiling, nvtx.markA
    numbers, last = weakref.WeakKeyDictionary(), 0

    def stepped(optimizer, args, kwargs):
        nonlocal last
        if is_compiling():
            return
        try:
            number = numbers.get(optimizer)
            if number is None:
                number = last = last + 1
                numbers[optimizer] = number
        except TypeError:  # it has no weak references, or no hash
            return
        mark("vrank::optimizer_step %d" % number)

    register(stepped)

try:
    mark_steps()
except Exception:
    pass
''', {})
)";

int Register(void*) {
  PyRun_SimpleString(kProgram);
  return 0;
}

}  // namespace

void MarkOptimizerSteps() {
  if (Py_AddPendingCall != nullptr && PyRun_SimpleString != nullptr)
    Py_AddPendingCall(Register, nullptr);
}

}  // namespace vrank::host
