// Reads ncclConfig_t, a structure that grows with every release of NCCL.
//
// The caller may be older (a shorter structure) or newer (fields we do not know) than
// this library, so it is read by its own size and version. Every field is checked as
// NCCL checks it; of the values, the name and `blocking` change what this library does:
// it has no channels or network of its own whose use the others could steer. The
// environment wins over the structure (NCCL_COMM_BLOCKING) and is read at every call.
//
// Thread rule: plain functions and values.

#ifndef VRANK_VIRTUAL_NCCL_CORE_CONFIG_H_
#define VRANK_VIRTUAL_NCCL_CORE_CONFIG_H_

#include <nccl.h>

#include <string>

namespace vrank::nccl {

struct Config {
  std::string name;  // commName, or ""
  bool blocking = true;
};

// NCCL's defaults, where no configuration is given.
Config DefaultConfig();

// REQUIRES: given != nullptr. `function`: the entry point, for the message.
// InvalidArgument for a wrong magic number or a value that NCCL refuses.
ncclResult_t ReadConfig(const ncclConfig_t* given, const char* function,
                        Config* config);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_CONFIG_H_
