// Chapter "memory" of nccl.h: allocation and registration of buffers.
//
// NCCL allocates so that peers may map the memory, and falls back to cudaMalloc. Nobody
// maps memory here, so cudaMalloc it is: of the process's runtime, found by name,
// because this library must not bring a second one along.

#include <dlfcn.h>

#include <cstdlib>

#include "virtual_nccl/api/entry.h"
#include "virtual_nccl/core/buffers.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/meeting.h"

using namespace vrank::nccl;  // entry points stand outside of any namespace

namespace {

// A function of the CUDA runtime that the process has loaded, or nullptr.
template <typename Function>
Function* FindRuntime(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

ncclResult_t FromCuda(cudaError_t error, const char* function) {
  if (error == cudaSuccess)
    return ncclSuccess;
  return Fail(ncclUnhandledCudaError, "%s : CUDA error %d", function,
              static_cast<int>(error));
}

ncclResult_t FailWithoutRuntime(const char* function) {
  return Fail(ncclSystemError,
              "%s : the process has loaded no CUDA runtime (libcudart)", function);
}

// NCCL takes physical memory, which comes in pieces of the device's granularity: 2 MiB
// (cuMemGetAllocationGranularity; src/allocator.cc of 2.28.9 rounds up to it). So does
// what is returned here: it counts as much, and is aligned as a window has to be.
size_t WholePieces(size_t bytes) {
  constexpr size_t kPiece = size_t{2} << 20;
  const size_t missing = (kPiece - bytes % kPiece) % kPiece;
  return bytes + missing < bytes ? bytes : bytes + missing;
}

// Read once, as NCCL reads it.
bool RegistrationIsOn() {
  static const bool on = [] {
    const char* text = getenv("NCCL_LOCAL_REGISTER");
    return text == nullptr || *text == '\0' || strtol(text, nullptr, 0) != 0;
  }();
  return on;
}

// Handles look like addresses, so that programs that print or test them see one.
uint64_t AddRegistration(Communicator* communicator, void* buffer) {
  constexpr uint64_t kStep = 64;
  std::lock_guard lock(communicator->mutex);
  const uint64_t handle = reinterpret_cast<uint64_t>(communicator) +
                          kStep * communicator->next_registration++;
  communicator->registrations.emplace(handle, buffer);
  return handle;
}

bool RemoveRegistration(Communicator* communicator, uint64_t handle) {
  std::lock_guard lock(communicator->mutex);
  return communicator->registrations.erase(handle) == 1;
}

}  // namespace

NCCL_API(ncclResult_t, ncclMemAlloc, void** ptr, size_t size) {
  return WithLibrary("ncclMemAlloc", [&](Library&) {
    auto* allocate = FindRuntime<cudaError_t(void**, size_t)>("cudaMalloc");
    return allocate == nullptr
               ? FailWithoutRuntime("ncclMemAlloc")
               : FromCuda(allocate(ptr, WholePieces(size)), "ncclMemAlloc");
  });
}

NCCL_API(ncclResult_t, ncclMemFree, void* ptr) {
  return WithLibrary("ncclMemFree", [&](Library&) {
    auto* free = FindRuntime<cudaError_t(void*)>("cudaFree");
    return free == nullptr ? FailWithoutRuntime("ncclMemFree")
                           : FromCuda(free(ptr), "ncclMemFree");
  });
}

// Nobody maps or pins memory here: a registration is a handle, which has to be taken
// back. NCCL_LOCAL_REGISTER=0 gives the null handle, as in NCCL.
NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buff, size_t,
         void** handle) {
  return WithLibrary("ncclCommRegister", [&](Library& library) {
    Communicator* communicator = nullptr;
    ncclResult_t result =
        FindReadyCommunicator(library, comm, "ncclCommRegister", &communicator);
    if (result == ncclSuccess)
      result = RequirePointer(handle, "ncclCommRegister", "handle");
    if (result == ncclSuccess && PointersAreChecked())
      result =
          CheckPointer(library, buff, "ncclCommRegister", "buff", communicator->device);
    if (result == ncclSuccess)
      *handle = RegistrationIsOn()
                    ? reinterpret_cast<void*>(AddRegistration(communicator, buff))
                    : nullptr;
    return result;
  });
}

NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  return WithLibrary("ncclCommDeregister", [&](Library&) {
    Communicator* communicator = nullptr;
    ncclResult_t result = FindCommunicator(comm, "ncclCommDeregister", &communicator);
    if (result == ncclSuccess && handle != nullptr &&
        !RemoveRegistration(communicator, reinterpret_cast<uintptr_t>(handle)))
      result = Fail(ncclInvalidUsage, "Deregister: Could not find handle");
    return result;
  });
}

// A window is registered by all members together. Collectives cost the same with it.
NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buff, size_t size,
         ncclWindow_t* win, int) {
  constexpr char kFunction[] = "ncclCommWindowRegister";
  return WithLibrary(kFunction, [&](Library& library) {
    if (buff == nullptr || size == 0)
      return ncclSuccess;
    Group& group = ThreadGroup();
    group.Start();
    Communicator* communicator = nullptr;
    ncclResult_t result =
        FindReadyCommunicator(library, comm, kFunction, &communicator);
    if (result == ncclSuccess)
      result = RequirePointer(win, kFunction, "win");
    if (result == ncclSuccess &&
        reinterpret_cast<uintptr_t>(buff) % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
      result = Fail(ncclInvalidArgument,
                    "%s : the window's address %p is not aligned to "
                    "%d bytes",
                    kFunction, buff, NCCL_WIN_REQUIRED_ALIGNMENT);
    if (result == ncclSuccess)
      result = group.AddWindow(communicator);
    if (result == ncclSuccess)
      *win = reinterpret_cast<ncclWindow_t>(AddRegistration(communicator, buff));
    group.Note(result);
    ncclResult_t end = group.End(library);
    return result != ncclSuccess ? result : end;
  });
}

NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
  constexpr char kFunction[] = "ncclCommWindowDeregister";
  return WithLibrary(kFunction, [&](Library&) {
    if (win == nullptr)
      return ncclSuccess;
    Communicator* communicator = nullptr;
    ncclResult_t result = FindCommunicator(comm, kFunction, &communicator);
    if (result == ncclSuccess &&
        !RemoveRegistration(communicator, reinterpret_cast<uintptr_t>(win)))
      result = Fail(ncclInvalidArgument, "%s : unknown window %p", kFunction,
                    static_cast<void*>(win));
    return result;
  });
}

NCCL_API(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t win,
         void** outUserPtr) {
  constexpr char kFunction[] = "ncclWinGetUserPtr";
  return WithLibrary(kFunction, [&](Library&) {
    Communicator* communicator = nullptr;
    ncclResult_t result = FindCommunicator(comm, kFunction, &communicator);
    if (result == ncclSuccess)
      result = RequirePointer(outUserPtr, kFunction, "outUserPtr");
    if (result != ncclSuccess)
      return result;
    std::lock_guard lock(communicator->mutex);
    const auto found =
        communicator->registrations.find(reinterpret_cast<uintptr_t>(win));
    if (found == communicator->registrations.end())
      return Fail(ncclInvalidArgument, "%s : unknown window %p", kFunction,
                  static_cast<void*>(win));
    *outUserPtr = found->second;
    return ncclSuccess;
  });
}
