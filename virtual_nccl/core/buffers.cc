#include "virtual_nccl/core/buffers.h"

#include <cstdlib>
#include <limits>

#include "base/guest/raw_log.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {

bool PointersAreChecked() {
  static const bool checked = [] {
    const char* text = getenv("NCCL_CHECK_POINTERS");
    return text != nullptr && strtoll(text, nullptr, 0) == 1;
  }();
  return checked;
}

ncclResult_t CheckPointer(Library& library, const void* pointer, const char* function,
                          const char* name, int device) {
  const int found =
      pointer == nullptr ? VirtualGpu::kNoMemory : library.gpu().MemoryDevice(pointer);
  if (found == VirtualGpu::kNoMemory)
    return Fail(ncclInvalidArgument, "%s : %s %p is not a valid pointer", function,
                name, pointer);
  if (found != VirtualGpu::kHostMemory && found != device)
    return Fail(ncclInvalidArgument,
                "%s : %s allocated on device %d mismatchs with NCCL device %d",
                function, name, found, device);
  return ncclSuccess;
}

ncclResult_t CheckPointers(Library& library, const Request& request,
                           const Communicator& communicator) {
  const auto check = [&](const void* pointer, const char* name) {
    return CheckPointer(library, pointer, request.function, name, communicator.device);
  };
  if (request.kind != Request::kCollective) {
    const void* const buffer =
        request.kind == Request::kSend ? request.send : request.receive;
    return request.count > 0 ? check(buffer, "buff") : ncclSuccess;
  }
  const bool is_root = request.root == static_cast<int>(communicator.rank);
  ncclResult_t result = ncclSuccess;
  if (request.operation != protocol::CollectiveKind::kBroadcast || is_root)
    result = check(request.send, "sendbuff");
  if (result == ncclSuccess &&
      (request.operation != protocol::CollectiveKind::kReduce || is_root))
    result = check(request.receive, "recvbuff");
  return result;
}

bool KernelGetsThrough(Library& library, const Call& call) {
  if (call.communicator->state() == CommunicatorState::kGone) {
    RawLog(
        kLibrary,
        "a graph with %s was launched after its communicator had been destroyed: the "
        "kernel would use freed memory (cudaErrorIllegalAddress). Destroy the graph "
        "first; ncclCommDestroy of NVIDIA's library waits for that",
        call.function);
    library.gpu().Fault();
    return false;
  }
  const uint64_t members = call.IsCollective() ? call.communicator->ranks : 1;
  if (call.count >
      std::numeric_limits<uint64_t>::max() / ElementBytes(call.type) / members) {
    RawLog(kLibrary,
           "%s : %llu elements for each of %llu ranks are more bytes than there are "
           "addresses: the kernel on device %d would fail with cudaErrorIllegalAddress",
           call.function, static_cast<unsigned long long>(call.count),
           static_cast<unsigned long long>(members), call.communicator->device);
    library.gpu().Fault();
    return false;
  }
  const auto usable = [&](const void* pointer, uint64_t bytes, const char* name) {
    if (bytes == 0 || (pointer != nullptr &&
                       library.gpu().MemoryDevice(pointer) != VirtualGpu::kNoMemory))
      return true;
    RawLog(
        kLibrary,
        "%s : %s %p is no memory that a kernel on device %d can use (%llu bytes): it "
        "would fail with cudaErrorIllegalAddress. NCCL_CHECK_POINTERS=1 lets the "
        "call itself fail",
        call.function, name, pointer, call.communicator->device,
        static_cast<unsigned long long>(bytes));
    library.gpu().Fault();
    return false;
  };
  if (!call.IsCollective())
    return call.kind == Request::kSend ? usable(call.send, call.bytes(), "sendbuff")
                                       : usable(call.receive, call.bytes(), "recvbuff");
  const Call::Buffer put_in = call.Contribution();
  return usable(put_in.address, put_in.bytes,
                put_in.address == call.send ? "sendbuff" : "recvbuff") &&
         usable(call.receive, call.ResultBytes(), "recvbuff");
}

}  // namespace vrank::nccl
