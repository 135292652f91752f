// A device's place on the PCI bus, as NCCL writes it into its log.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_BUS_ID_H_
#define VRANK_VIRTUAL_NCCL_CORE_BUS_ID_H_

#include <cstdint>
#include <string_view>

namespace vrank::nccl {

// "0000:1b:00.0" is 0x1b000: all hexadecimal digits, as one number (src/misc/utils.cc
// of 2.28.9, busIdToInt64).
uint64_t ParseBusId(std::string_view text);

// Of the process's CUDA device, as its libcuda.so.1 says it; 0 where that does not.
uint64_t BusIdOf(int device);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_BUS_ID_H_
