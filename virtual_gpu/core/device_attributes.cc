// Rows by attribute number. Limits that do not depend on the GPU are those of the CUDA
// C++ Programming Guide, "Compute capabilities" (9.0, identical for 8.0 and 10.0 here),
// and of deviceQuery on an H100 for texture sizes.

#include "virtual_gpu/core/device_attributes.h"

#include <cstring>

namespace vrank::gpu {
namespace {

struct Row {
  int attribute;
  int value;
};

constexpr Row kFixed[] = {
    {1, 1024},         // max threads per block
    {2, 1024},         // max block x
    {3, 1024},         // max block y
    {4, 64},           // max block z
    {5, 2147483647},   // max grid x
    {6, 65535},        // max grid y
    {7, 65535},        // max grid z
    {10, 32},          // warp size
    {11, 2147483647},  // max pitch
    {14, 512},         // texture alignment
    {15, 1},           // copies overlap with kernels
    {17, 0},           // run-time limit on kernels
    {18, 0},           // integrated
    {19, 1},           // can map host memory
    {20, 0},           // compute mode: default
    {21, 131072},      // texture sizes
    {22, 131072},     {23, 65536},  {24, 16384},
    {25, 16384},      {26, 16384},  {27, 32768},
    {28, 32768},      {29, 2048},   {30, 512},  // surface alignment
    {31, 1},                                    // concurrent kernels
    {32, 1},                                    // ECC
    {34, 0},                                    // PCI device
    {35, 0},                                    // TCC driver
    {40, 3},                                    // copy engines
    {41, 1},                                    // unified addressing
    {42, 32768},      {43, 2048},   {45, 32768},
    {46, 32768},      {47, 8192},   {48, 8192},
    {49, 32768},      {50, 0},  // PCI domain
    {51, 32},                   // texture pitch alignment
    {52, 32768},      {53, 32768},  {54, 2046},
    {55, 32768},      {56, 131072}, {57, 65536},
    {58, 16384},      {59, 16384},  {60, 16384},
    {61, 32768},      {62, 2048},   {63, 32768},
    {64, 32768},      {65, 2048},   {66, 32768},
    {67, 32768},      {68, 2046},   {69, 268435456},
    {70, 131072},     {71, 65000},  {72, 2097120},
    {73, 32768},      {74, 32768},  {77, 32768},
    {78, 1},  // stream priorities
    {79, 1},  // L1 caches globals
    {80, 1},  // L1 caches locals
    {83, 0},  // managed memory: refused, so not offered
    {84, 0},          {85, 0},      {86, 0},
    {87, 2},  // single to double precision
    {88, 0},  // pageable memory access
    {89, 0},  // concurrent managed access
    {90, 1},  // compute preemption
    {91, 1},  // host pointers of registered memory are device pointers
    {92, 0},          {93, 0},      {94, 0},
    {95, 1},                                   // cooperative launch
    {96, 0},          {98, 0},      {99, 1},   // host registration
    {100, 0},         {101, 0},     {102, 1},  // virtual memory management
    {103, 1},  // handles to share memory by: file descriptors
    {104, 0},         {105, 0},     {107, 0},
    {108, 0},                       // persisting L2
    {109, 0},                       // access policy window
    {110, 0},         {111, 1024},  // shared memory reserved per block
    {112, 0},         {113, 0},     {114, 0},
    {115, 1},  // memory pools
    {116, 0},         {117, 0},     {118, 0},
    {119, 0},         {121, 0},     {122, 0},
    {123, 0},         {124, 0},     {125, 1},  // IPC events
    {126, 1},         {127, 0},     {128, 0},
    {129, 0},         {130, 0},     {131, -1},
    {132, 0},  // multicast objects: part of virtual memory management
    {133, 0},         {134, -1},    {135, 0},
    {136, 0},         {137, 0},     {138, 0},
    {139, 0},         {140, 0},     {141, 0},
    {142, 0},         {143, 0},     {144, 0},
    {145, 0},         {147, 0},
};

}  // namespace

std::optional<int> DeviceAttribute(const protocol::GpuProperties& gpu, int device,
                                   int attribute) {
  auto as_int = [](uint64_t value) { return static_cast<int>(value); };
  switch (attribute) {
    case 8:
      return as_int(gpu.shared_per_block);
    case 9:
      return as_int(gpu.constant_bytes);
    case 12:  // registers per block: those of a multiprocessor
    case 82:
      return as_int(gpu.registers_per_multiprocessor);
    case 13:
      return as_int(gpu.clock_khz);
    case 16:
      return as_int(gpu.multiprocessors);
    case 33:
      return DeviceBus(device);
    case 36:
      return as_int(gpu.memory_clock_khz);
    case 37:
      return as_int(gpu.memory_bus_bits);
    case 38:
      return as_int(gpu.l2_bytes);
    case 39:
      return as_int(gpu.threads_per_multiprocessor);
    case 75:
      return as_int(gpu.compute_major);
    case 76:
      return as_int(gpu.compute_minor);
    case 81:
      return as_int(gpu.shared_per_multiprocessor);
    case 97:
      return as_int(gpu.shared_per_block_optin);
    case 106:
      return as_int(gpu.blocks_per_multiprocessor);
    case 120:  // clusters came with Hopper
      return gpu.compute_major >= 9 ? 1 : 0;
  }
  for (const Row& row : kFixed)
    if (row.attribute == attribute)
      return row.value;
  return std::nullopt;
}

void DeviceUuid(const protocol::Settings& settings, int device, unsigned char* uuid) {
  std::memset(uuid, 0, 16);
  std::memcpy(uuid, "vrank\0\0\0", 8);
  const uint32_t node = settings.rank - settings.local_rank;
  std::memcpy(uuid + 8, &node, sizeof node);
  std::memcpy(uuid + 12, &device, sizeof device);
}

}  // namespace vrank::gpu
