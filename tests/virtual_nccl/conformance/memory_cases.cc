// Allocation, buffer registration, windows.

#include <cstdlib>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/comms";
constexpr char kUsage[] = "usage/bufferreg";
constexpr char kFlags[] = "api/flags";

constexpr size_t kCount = 1024;
constexpr size_t kBytes = kCount * sizeof(int);

struct Allocation {
  void* at = nullptr;
  explicit Allocation(size_t bytes) { EXPECT_OK(ncclMemAlloc(&at, bytes)); }
  ~Allocation() { EXPECT_OK(ncclMemFree(at)); }
  char* offset(size_t bytes) const { return static_cast<char*>(at) + bytes; }
};

struct Registration {
  void* handle = nullptr;
  Registration(void* at, size_t bytes) {
    EXPECT_OK(ncclCommRegister(TheWorld().comm, at, bytes, &handle));
  }
  ~Registration() { EXPECT_OK(ncclCommDeregister(TheWorld().comm, handle)); }
};

struct Window {
  ncclWindow_t window = nullptr;
  Window(void* at, size_t bytes, int flags = NCCL_WIN_DEFAULT) {
    EXPECT_OK(ncclCommWindowRegister(TheWorld().comm, at, bytes, &window, flags));
  }
  ~Window() { EXPECT_OK(ncclCommWindowDeregister(TheWorld().comm, window)); }
};

// Adds kCount ones from one place into another.
void CheckSum(void* send, void* receive) {
  const std::vector<int> ones(kCount, 1);
  std::vector<int> sums(kCount);
  EXPECT_CUDA(cudaMemcpy(send, ones.data(), kBytes, cudaMemcpyHostToDevice));
  EXPECT_OK(ncclAllReduce(send, receive, kCount, ncclInt, ncclSum, TheWorld().comm,
                          TheWorld().stream));
  Synchronize();
  EXPECT_CUDA(cudaMemcpy(sums.data(), receive, kBytes, cudaMemcpyDeviceToHost));
  EXPECT_THAT(sums == std::vector<int>(kCount, TheWorld().size));
}

void SymmetricSum() {
  const Allocation send(kBytes), receive(kBytes);
  const Window one(send.at, kBytes, NCCL_WIN_COLL_SYMMETRIC);
  const Window two(receive.at, kBytes, NCCL_WIN_COLL_SYMMETRIC);
  CheckSum(send.at, receive.at);
}

constexpr Case kCases[] = {
    {"memory.alloc", "ncclMemAlloc ncclMemFree", kPage,
     "ncclMemAlloc: allocate a GPU buffer with size",
     [] {
       const Allocation buffer(kBytes);
       cudaPointerAttributes attributes;
       EXPECT_CUDA(cudaPointerGetAttributes(&attributes, buffer.at));
       EXPECT_THAT(attributes.type == cudaMemoryTypeDevice &&
                   attributes.device == TheWorld().device);
     }},
    {"memory.head", "ncclMemAlloc", kPage,
     "ncclMemAlloc: head address of the buffer returned by ptr",
     [] {
       const Allocation one(kBytes), other(kBytes);
       EXPECT_THAT(one.at != nullptr && other.at != nullptr && one.at != other.at);
     }},
    {"memory.larger", "ncclMemAlloc", kPage,
     "ncclMemAlloc: the actual size can be larger than requested",
     [] {
       const Allocation tiny(1);
       EXPECT_CUDA(cudaMemset(tiny.at, 1, 1));
       EXPECT_CUDA(cudaDeviceSynchronize());
     }},
    {"memory.free", "ncclMemFree", kPage, "ncclMemFree: free memory of ncclMemAlloc",
     [] {
       for (int i = 0; i < 64; ++i)
         const Allocation buffer(size_t{1} << 30);
     }},
    {"memory.free_null", "ncclMemFree", "nccl.h",
     "ncclMemAlloc: malloc and free function for all optimizations",
     [] { EXPECT_OK(ncclMemFree(nullptr)); }},
    {"memory.too_large", "ncclMemAlloc", "usage/communicators",
     "errors table: ncclUnhandledCudaError, error during a CUDA call",
     [] {
       void* at = nullptr;
       EXPECT_CODE(ncclUnhandledCudaError, ncclMemAlloc(&at, size_t{1} << 50));
     }},
    {"memory.any_use", "ncclMemAlloc ncclAllReduce", kUsage,
     "Allocator: ncclMemAlloc to help users to allocate buffers",
     [] {
       const Allocation send(kBytes), receive(kBytes);
       CheckSum(send.at, receive.at);
     }},
    {"register.handle", "ncclCommRegister ncclCommDeregister", kPage,
     "ncclCommRegister: handle is returned for future deregistration",
     [] {
       const Allocation buffer(kBytes);
       void* handle = buffer.at;
       EXPECT_OK(ncclCommRegister(TheWorld().comm, buffer.at, kBytes, &handle));
       EXPECT_THAT(handle != buffer.at);
       EXPECT_OK(ncclCommDeregister(TheWorld().comm, handle));
     }},
    {"register.under_comm", "ncclCommRegister", kPage,
     "ncclCommRegister: registers buff with size under comm",
     [] {
       const Allocation buffer(2 * kBytes);
       const Registration registration(buffer.at, 2 * kBytes);
       CheckSum(buffer.at, buffer.offset(kBytes));
     }},
    {"register.deregister", "ncclCommDeregister", kPage,
     "ncclCommDeregister: deregister buffer represented by handle",
     [] {
       const Allocation buffer(kBytes);
       for (int i = 0; i < 3; ++i)
         const Registration registration(buffer.at, kBytes);
       CheckSum(buffer.at, buffer.at);
     }},
    {"register.bad_arguments", "ncclCommRegister ncclCommDeregister",
     "usage/communicators", "errors (3): an argument value is incorrect",
     [] {
       const Allocation buffer(kBytes);
       void* handle = nullptr;
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommRegister(nullptr, buffer.at, kBytes, &handle));
       EXPECT_CODE(ncclInvalidArgument, ncclCommDeregister(nullptr, nullptr));
     }},
    {"register.header", "ncclCommRegister ncclCommDeregister", "nccl.h",
     "ncclCommRegister: register CUDA buffer for zero-copy operation",
     [] {
       const Allocation send(kBytes), receive(kBytes);
       const Registration one(send.at, kBytes), two(receive.at, kBytes);
       CheckSum(send.at, receive.at);
     }},
    {"register.local", "ncclCommRegister ncclAllReduce", kUsage,
     "Registration: operate data through the user buffer",
     [] {
       const Allocation buffer(kBytes);
       const Registration registration(buffer.at, kBytes);
       CheckSum(buffer.at, buffer.at);
     }},
    {"register.before_collectives", "ncclCommRegister", kUsage,
     "NVLS: register with ncclCommRegister before calling collectives",
     [] {
       const Allocation send(kBytes), receive(kBytes);
       const Registration one(send.at, kBytes), two(receive.at, kBytes);
       for (int i = 0; i < 2; ++i)
         CheckSum(send.at, receive.at);
     }},
    {"register.until_explicit", "ncclCommDeregister", kUsage,
     "NVLS: deregistered when users explicitly call ncclCommDeregister",
     [] {
       const Allocation buffer(kBytes);
       {
         const Registration registration(buffer.at, kBytes);
         CheckSum(buffer.at, buffer.at);
       }
       CheckSum(buffer.at, buffer.at);
     }},
    {"register.reuse", "ncclCommRegister", kUsage,
     "NVLS: register once and reuse the buffer multiple times",
     [] {
       const Allocation buffer(kBytes);
       const Registration registration(buffer.at, kBytes);
       for (int i = 0; i < 5; ++i)
         CheckSum(buffer.at, buffer.at);
     }},
    {"register.chunk", "ncclCommRegister", kUsage,
     "NVLS: valid to allocate a large chunk and register it once",
     [] {
       const Allocation buffer(8 * kBytes);
       const Registration registration(buffer.at, 8 * kBytes);
       CheckSum(buffer.at, buffer.offset(kBytes));
       CheckSum(buffer.offset(2 * kBytes), buffer.offset(5 * kBytes));
     }},
    {"register.legacy", "ncclCommRegister", kUsage,
     "General: cudaMalloc buffers can also be used for registration",
     [] {
       const Buffer buffer(kBytes);
       const Registration registration(buffer.at(), kBytes);
       CheckSum(buffer.at(), buffer.at());
     }},
    {"window.register", "ncclCommWindowRegister ncclCommWindowDeregister", kPage,
     "ncclCommWindowRegister: collectively register local buffer buff",
     [] {
       const Allocation buffer(kBytes);
       const Window window(buffer.at, kBytes);
       CheckSum(buffer.at, buffer.at);
     },
     kAnything},
    {"window.collective", "ncclCommWindowRegister", kPage,
     "ncclCommWindowRegister: every rank needs to participate",
     [] {
       if (!HasBoard())
         return;
       const Allocation buffer(kBytes);
       Post("window");
       const Window window(buffer.at, kBytes);
       for (int rank : TheWorld().present)
         EXPECT_THAT(IsPosted("window", rank));
     },
     kTwoRanks},
    {"window.sizes", "ncclCommWindowRegister", kPage,
     "ncclCommWindowRegister: size may differ across ranks",
     [] {
       const size_t bytes = kBytes * (TheWorld().rank % 2 == 0 ? 1 : 2);
       const Allocation buffer(bytes);
       const Window window(buffer.at, bytes);
       CheckSum(buffer.at, buffer.at);
     },
     kAnything},
    {"window.handle", "ncclCommWindowRegister", kPage,
     "ncclCommWindowRegister: win is returned for future deregistration",
     [] {
       const Allocation one(kBytes), other(kBytes);
       const Window a(one.at, kBytes), b(other.at, kBytes);
       EXPECT_THAT(a.window != nullptr && b.window != nullptr && a.window != b.window);
     },
     kAnything},
    {"window.in_group", "ncclCommWindowRegister ncclGroupEnd", kPage,
     "ncclCommWindowRegister: within a group filled in by ncclGroupEnd",
     [] {
       const Allocation one(kBytes), other(kBytes);
       ncclWindow_t a = nullptr, b = nullptr;
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclCommWindowRegister(TheWorld().comm, one.at, kBytes, &a, 0));
       EXPECT_OK(ncclCommWindowRegister(TheWorld().comm, other.at, kBytes, &b, 0));
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(a != nullptr && b != nullptr && a != b);
       EXPECT_OK(ncclCommWindowDeregister(TheWorld().comm, a));
       EXPECT_OK(ncclCommWindowDeregister(TheWorld().comm, b));
     },
     kAnything},
    {"window.local_end", "ncclCommWindowDeregister", kPage,
     "ncclCommWindowDeregister: deregistration is local to the rank",
     [] {
       // Ranks end theirs in different orders, with work in between.
       const Allocation one(kBytes), other(kBytes);
       ncclWindow_t a = nullptr, b = nullptr;
       EXPECT_OK(ncclCommWindowRegister(TheWorld().comm, one.at, kBytes, &a, 0));
       EXPECT_OK(ncclCommWindowRegister(TheWorld().comm, other.at, kBytes, &b, 0));
       const bool swapped = TheWorld().rank % 2 == 1;
       EXPECT_OK(ncclCommWindowDeregister(TheWorld().comm, swapped ? b : a));
       EXPECT_THAT(Works(TheWorld().comm));
       EXPECT_OK(ncclCommWindowDeregister(TheWorld().comm, swapped ? a : b));
     },
     kAnything},
    {"window.end", "ncclCommWindowDeregister", kPage,
     "ncclCommWindowDeregister: deregister window represented by win",
     [] {
       const Allocation buffer(kBytes);
       for (int i = 0; i < 3; ++i)
         const Window window(buffer.at, kBytes);
       CheckSum(buffer.at, buffer.at);
     },
     kAnything},
    {"window.default", "ncclCommWindowRegister", kFlags,
     "NCCL_WIN_DEFAULT: any offset to the head as input of collectives",
     [] {
       const Allocation buffer(4 * kBytes);
       const Window window(buffer.at, 4 * kBytes, NCCL_WIN_DEFAULT);
       const size_t mine = static_cast<size_t>(TheWorld().rank % 3) * kBytes;
       CheckSum(buffer.offset(mine), buffer.offset(3 * kBytes));
     },
     kAnything},
    {"window.symmetric", "ncclCommWindowRegister", kFlags,
     "NCCL_WIN_COLL_SYMMETRIC: equal offsets to the head on all ranks", SymmetricSum,
     kAnything},
    {"window.header", "ncclCommWindowRegister ncclCommWindowDeregister", "nccl.h",
     "ncclCommWindowRegister: register memory window", SymmetricSum, kAnything},
    {"window.local_buffers", "ncclCommWindowRegister", kUsage,
     "Windows: register local buffers into NCCL window", SymmetricSum, kAnything},
    {"window.mem_alloc", "ncclCommWindowRegister ncclMemAlloc", kUsage,
     "Windows: buffers from VMM-based allocators and ncclMemAlloc",
     [] {
       const Allocation buffer(2 * kBytes);
       const Window window(buffer.at, 2 * kBytes);
       EXPECT_THAT(window.window != nullptr);
     },
     kAnything},
    {"window.flags_control", "ncclCommWindowRegister", kUsage,
     "Windows: control registration through flags",
     [] {
       for (int flags : {NCCL_WIN_DEFAULT, NCCL_WIN_COLL_SYMMETRIC}) {
         const Allocation buffer(kBytes);
         const Window window(buffer.at, kBytes, flags);
         CheckSum(buffer.at, buffer.at);
       }
     },
     kAnything},
    {"window.zero_cta", "ncclCommWindowRegister ncclAllGather", kUsage,
     "Zero-CTA: symmetric windows with the ZERO policy",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
       const Comm comm = Duplicate(TheWorld().comm, &config);
       const Allocation send(kBytes);
       ncclWindow_t window = nullptr;
       EXPECT_OK(ncclCommWindowRegister(comm.get(), send.at, kBytes, &window,
                                        NCCL_WIN_COLL_SYMMETRIC));
       EXPECT_THAT(Works(comm.get()));
       EXPECT_OK(ncclCommWindowDeregister(comm.get(), window));
     },
     kAnything},
};

}  // namespace

std::span<const Case> MemoryCases() {
  return kCases;
}

}  // namespace conformance
