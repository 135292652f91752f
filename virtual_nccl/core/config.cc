// The rules of NCCL 2.28.9 for ncclConfig_t (src/init.cc, parseCommConfig).

#include "virtual_nccl/core/config.h"

#include <strings.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "virtual_nccl/core/error.h"

namespace vrank::nccl {
namespace {

constexpr unsigned kMagic = 0xcafebeef;

// Forgets the fields that the caller's version did not have: its structure may have
// held something else there.
void ForgetNewerFields(ncclConfig_t* config) {
  if (config->version < NCCL_VERSION(2, 14, 0))
    config->blocking = NCCL_CONFIG_UNDEF_INT;
  if (config->version < NCCL_VERSION(2, 17, 0)) {
    config->cgaClusterSize = config->minCTAs = config->maxCTAs = NCCL_CONFIG_UNDEF_INT;
    config->netName = nullptr;
  }
  if (config->version < NCCL_VERSION(2, 25, 0))
    config->trafficClass = NCCL_CONFIG_UNDEF_INT;
  if (config->version < NCCL_VERSION(2, 27, 0))
    config->collnetEnable = config->CTAPolicy = config->shrinkShare = config->nvlsCTAs =
        NCCL_CONFIG_UNDEF_INT;
  if (config->version < NCCL_VERSION(2, 28, 0))
    config->nChannelsPerNetPeer = config->nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT;
}

struct Range {
  const char* field;
  int ncclConfig_t::*value;
  int lowest;
  int highest;
};

constexpr Range kRanges[] = {
    {"blocking", &ncclConfig_t::blocking, 0, 1},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, INT_MAX},
    {"minCTAs", &ncclConfig_t::minCTAs, 1, INT_MAX},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 1, INT_MAX},
    {"splitShare", &ncclConfig_t::splitShare, 0, 1},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 0, 1},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, NCCL_CTA_POLICY_DEFAULT,
     NCCL_CTA_POLICY_ZERO},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 0, 1},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 1, INT_MAX},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 1, 64},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 0, 1},
};

// The variable's value where it is one that NCCL takes, else `value`.
int Overridden(const char* variable, int lowest, int highest, int value) {
  const char* text = getenv(variable);
  if (text == nullptr || *text == '\0')
    return value;
  char* end = nullptr;
  const long stated = strtol(text, &end, 0);
  return *end == '\0' && stated >= lowest && stated <= highest
             ? static_cast<int>(stated)
             : value;
}

// NCCL looks for the name among its two networks and the plugins that it finds. What
// plugins the job would have nobody knows here: where a variable names one, or another
// network than the structure, all is well.
bool HasNetwork(const char* name) {
  return name == nullptr || strcasecmp(name, "IB") == 0 ||
         strcasecmp(name, "Socket") == 0 || getenv("NCCL_NET") != nullptr ||
         getenv("NCCL_NET_PLUGIN") != nullptr;
}

}  // namespace

Config DefaultConfig() {
  Config config;
  config.blocking = Overridden("NCCL_COMM_BLOCKING", 0, 1, 1) != 0;
  return config;
}

ncclResult_t ReadConfig(const ncclConfig_t* given, const char* function,
                        Config* config) {
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  known.magic = 0;
  size_t size = 0;
  memcpy(&size, given, sizeof size);
  memcpy(static_cast<void*>(&known), given, std::min(size, sizeof known));
  if (known.magic != kMagic)
    return Fail(ncclInvalidArgument,
                "%s : config was not initialized with NCCL_CONFIG_INITIALIZER",
                function);
  ForgetNewerFields(&known);
  for (const Range& range : kRanges) {
    int value = known.*range.value;
    if (value != NCCL_CONFIG_UNDEF_INT &&
        (value < range.lowest || value > range.highest))
      return Fail(ncclInvalidArgument, "%s : config field %s has the invalid value %d",
                  function, range.field, value);
  }
  // Before defaults, as in NCCL: minCTAs alone is above an undefined maxCTAs (INT_MIN).
  if (known.minCTAs > known.maxCTAs)
    return Fail(ncclInvalidArgument, "%s : config has minCTAs %d above maxCTAs %d",
                function, known.minCTAs, known.maxCTAs);
  if (!HasNetwork(known.netName))
    return Fail(
        ncclInvalidUsage,
        "Failed to initialize any NET plugin: config names the network '%s', and "
        "NCCL itself has IB and Socket (%s)",
        known.netName, function);
  config->name = known.commName != nullptr ? known.commName : "";
  const int blocking = known.blocking == NCCL_CONFIG_UNDEF_INT ? 1 : known.blocking;
  config->blocking = Overridden("NCCL_COMM_BLOCKING", 0, 1, blocking) != 0;
  return ncclSuccess;
}

}  // namespace vrank::nccl
