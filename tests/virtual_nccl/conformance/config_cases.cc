// ncclConfig_t: the fields, their ranges and defaults, and old headers.

#include <climits>
#include <cstring>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/types";

// A config is looked at before anybody is waited for.
void Refused(int ncclConfig_t::*field, int value) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.*field = value;
  Comm comm;
  ncclUniqueId id{};
  EXPECT_CODE(ncclInvalidArgument,
              ncclCommInitRankConfig(comm.out(), 1, id, 0, &config));
}

// The values are accepted and the communicator works.
void Accepted(int ncclConfig_t::*field, std::initializer_list<int> values) {
  for (int value : values) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.*field = value;
    EXPECT_THAT(Works(Duplicate(TheWorld().comm, &config).get()));
  }
}

// Both at once: NCCL compares them before it fills in what is not set.
void AcceptedCtas(int least, int most) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = least;
  config.maxCTAs = most;
  EXPECT_THAT(Works(Duplicate(TheWorld().comm, &config).get()));
}

// What a program has that was compiled with an older header: a shorter structure, here
// followed by bytes that mean nothing.
template <size_t kBytes>
void OldHeader(unsigned version) {
  struct {
    unsigned char config[kBytes];
    unsigned char other[sizeof(ncclConfig_t)];
  } old;
  memset(&old, 0x77, sizeof old);
  ncclConfig_t now = NCCL_CONFIG_INITIALIZER;
  now.size = kBytes;
  now.version = version;
  memcpy(old.config, &now, kBytes);
  EXPECT_THAT(Works(
      Duplicate(TheWorld().comm, reinterpret_cast<ncclConfig_t*>(old.config)).get()));
}

constexpr Case kCases[] = {
    {"config.initializer", "ncclCommInitRankConfig", kPage,
     "ncclConfig_t: must be initialized by NCCL_CONFIG_INITIALIZER",
     [] {
       Comm comm;
       ncclUniqueId id{};
       ncclConfig_t config{};
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommInitRankConfig(comm.out(), 1, id, 0, &config));
     }},
    {"config.not_initialized", "ncclCommInitRankConfig", "nccl.h",
     "config initializer: not initialized config will result in NCCL error",
     [] {
       Comm comm;
       ncclUniqueId id{};
       ncclConfig_t config;
       memset(static_cast<void*>(&config), 0x11, sizeof config);
       EXPECT_THAT(ncclCommInitRankConfig(comm.out(), 1, id, 0, &config) !=
                   ncclSuccess);
     }},
    {"config.is_an_initializer", "ncclCommSplit", kPage,
     "NCCL_CONFIG_INITIALIZER: a configuration macro initializer",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       EXPECT_THAT(config.blocking == NCCL_CONFIG_UNDEF_INT);
       EXPECT_THAT(config.netName == NCCL_CONFIG_UNDEF_PTR);
       EXPECT_THAT(Works(Duplicate(TheWorld().comm, &config).get()));
     }},
    {"config.attributes", "ncclCommSplit", "nccl.h",
     "ncclConfig_t: users can assign values to attributes",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.blocking = 1;
       config.splitShare = 0;
       config.commName = "attributes";
       EXPECT_THAT(Works(Duplicate(TheWorld().comm, &config).get()));
     }},
    {"config.untouchable", "ncclCommSplit", "nccl.h",
     "ncclConfig_t: attributes that users should never touch",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       const size_t size = config.size;
       const unsigned magic = config.magic, version = config.version;
       EXPECT_THAT(Works(Duplicate(TheWorld().comm, &config).get()));
       EXPECT_THAT(config.size == size && config.magic == magic &&
                   config.version == version);
     }},
    {"config.blocking_values", "ncclCommInitRankConfig", kPage,
     "blocking: can be set as integer 0 or 1",
     [] {
       Refused(&ncclConfig_t::blocking, 2);
       Refused(&ncclConfig_t::blocking, -1);
     }},
    {"config.nonblocking", "ncclCommInitRankConfig ncclCommGetAsyncError", kPage,
     "blocking: 0 or 1 to indicate nonblocking or blocking behavior",
     [] {
       ncclConfig_t config = NonblockingConfig();
       EXPECT_THAT(Works(FromNewId(&config).get()));
     }},
    {"config.blocking_default", "ncclCommInitRankConfig", kPage,
     "blocking: blocking is the default behavior",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       Comm comm;
       const ncclUniqueId id = SharedId();
       EXPECT_CODE(ncclSuccess, ncclCommInitRankConfig(comm.out(), TheWorld().size, id,
                                                       TheWorld().rank, &config));
       EXPECT_THAT(RankIn(comm.get()) == TheWorld().rank);
     }},
    {"config.cga", "ncclCommInitRankConfig ncclCommSplit", kPage,
     "cgaClusterSize: can be set between 0 and 8",
     [] {
       Refused(&ncclConfig_t::cgaClusterSize, -1);
       Accepted(&ncclConfig_t::cgaClusterSize, {0, 2, 8});
     }},
    {"config.min_ctas", "ncclCommInitRankConfig ncclCommSplit", kPage,
     "minCTAs: set to a positive integer value",
     [] {
       Refused(&ncclConfig_t::minCTAs, 0);
       Refused(&ncclConfig_t::minCTAs, -4);
       AcceptedCtas(1, 32);
     }},
    {"config.min_ctas_minimal", "ncclCommSplit", kPage,
     "minCTAs: the minimal number of CTAs NCCL should use",
     [] { AcceptedCtas(4, 16); }},
    {"config.max_ctas", "ncclCommInitRankConfig ncclCommSplit", kPage,
     "maxCTAs: set to a positive integer value",
     [] {
       Refused(&ncclConfig_t::maxCTAs, 0);
       Accepted(&ncclConfig_t::maxCTAs, {1, 32});
     }},
    {"config.max_ctas_maximal", "ncclCommInitRankConfig", kPage,
     "maxCTAs: the maximal number of CTAs NCCL should use",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.minCTAs = 8;
       config.maxCTAs = 4;
       Comm comm;
       ncclUniqueId id{};
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommInitRankConfig(comm.out(), 1, id, 0, &config));
     }},
    {"config.net_default", "ncclCommSplit", kPage,
     "netName: undefined, NCCL will choose the network module",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.netName = nullptr;
       EXPECT_THAT(Works(Duplicate(TheWorld().comm, &config).get()));
     }},
    {"config.net_socket", "ncclCommInitRankConfig", kPage,
     "netName: internal network module names are IB and Socket",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.netName = "Socket";
       EXPECT_THAT(Works(FromNewId(&config).get()));
     }},
    {"config.net_case", "ncclCommInitRankConfig", kPage,
     "netName: the name of the module (case-insensitive)",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.netName = "sOcKeT";
       EXPECT_THAT(Works(FromNewId(&config).get()));
     }},
    {"config.net_unknown", "ncclCommInitRankConfig", kPage,
     "netName: the network module that NCCL should use",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.netName = "nonesuch";
       ncclUniqueId id;
       Comm comm;
       EXPECT_OK(ncclGetUniqueId(&id));
       EXPECT_CODE(ncclInvalidUsage,
                   ncclCommInitRankConfig(comm.out(), 1, id, 0, &config));
     }},
    {"config.split_share", "ncclCommInitRankConfig", kPage, "splitShare: set to 0 or 1",
     [] { Refused(&ncclConfig_t::splitShare, 2); }},
    {"config.split_share_child", "ncclCommInitRankConfig ncclCommSplit", kPage,
     "splitShare: the child can share internal resources of the parent",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.splitShare = 1;
       const Comm parent = FromNewId(&config);
       const Comm child = Duplicate(parent.get());
       EXPECT_THAT(Works(child.get()) && Works(parent.get()));
     }},
    {"config.split_share_default", "ncclCommSplit", kPage,
     "splitShare: the default value is 0",
     [] {
       // Nothing is shared: the parent outlives the child and the other way round.
       Comm parent = Duplicate();
       const Comm child = Duplicate(parent.get());
       EXPECT_OK(ncclCommDestroy(parent.Release()));
       EXPECT_THAT(Works(child.get()));
     }},
    {"config.shrink_share", "ncclCommInitRankConfig", kPage,
     "shrinkShare: set to 0 or 1",
     [] {
       Refused(&ncclConfig_t::shrinkShare, -1);
       Accepted(&ncclConfig_t::shrinkShare, {0, 1});
     }},
    {"config.traffic_class", "ncclCommSplit", kPage,
     "trafficClass: should be greater than or equal to 0",
     [] {
       Accepted(&ncclConfig_t::trafficClass, {0, 1});
     }},
    {"config.traffic_class_per_comm", "ncclCommInitRankConfig", kPage,
     "trafficClass: assigning different TCs to each communicator",
     [] {
       ncclConfig_t low = NCCL_CONFIG_INITIALIZER, high = NCCL_CONFIG_INITIALIZER;
       low.trafficClass = 0;
       high.trafficClass = 1;
       const Comm a = Duplicate(TheWorld().comm, &low);
       const Comm b = Duplicate(TheWorld().comm, &high);
       EXPECT_THAT(Works(a.get()) && Works(b.get()));
     }},
    {"config.quality_of_service", "ncclCommInitRankConfig", "usage/communicators",
     "Quality of Service: TC is specified during communicator creation",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.trafficClass = 1;
       EXPECT_THAT(Works(FromNewId(&config).get()));
     }},
    {"config.collnet", "ncclCommInitRankConfig ncclCommSplit", kPage,
     "collnetEnable: set 1/0 to enable/disable IB SHARP",
     [] {
       Refused(&ncclConfig_t::collnetEnable, 3);
       Accepted(&ncclConfig_t::collnetEnable, {0});
     }},
    {"config.policy_default", "ncclCommSplit", kPage,
     "CTAPolicy: the default value is NCCL_CTA_POLICY_DEFAULT",
     [] { Accepted(&ncclConfig_t::CTAPolicy, {NCCL_CTA_POLICY_DEFAULT}); }},
    {"config.policy_list", "ncclCommInitRankConfig", kPage,
     "CTAPolicy: set the policy for the communicator",
     [] {
       Refused(&ncclConfig_t::CTAPolicy, 7);
       Refused(&ncclConfig_t::CTAPolicy, -1);
     }},
    {"config.policy_flag_default", "ncclCommSplit", "api/flags",
     "NCCL_CTA_POLICY_DEFAULT: use the default CTA policy",
     [] {
       EXPECT_THAT(NCCL_CTA_POLICY_DEFAULT == 0);
       Accepted(&ncclConfig_t::CTAPolicy, {NCCL_CTA_POLICY_DEFAULT});
     }},
    {"config.policy_flag_efficiency", "ncclCommSplit", "api/flags",
     "NCCL_CTA_POLICY_EFFICIENCY: use the CTA efficiency policy",
     [] { Accepted(&ncclConfig_t::CTAPolicy, {NCCL_CTA_POLICY_EFFICIENCY}); }},
    {"config.policy_flag_zero", "ncclCommSplit", "api/flags",
     "NCCL_CTA_POLICY_ZERO: use zero CTA whenever it can",
     [] { Accepted(&ncclConfig_t::CTAPolicy, {NCCL_CTA_POLICY_ZERO}); }},
    {"config.nvls_ctas", "ncclCommInitRankConfig ncclCommSplit", kPage,
     "nvlsCTAs: set to a positive integer value",
     [] {
       Refused(&ncclConfig_t::nvlsCTAs, 0);
       Accepted(&ncclConfig_t::nvlsCTAs, {4});
     }},
    {"config.name", "ncclCommSplit", kPage,
     "commName: the user defined name for the communicator",
     [] {
       char name[] = "a name";
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.commName = name;
       const Comm comm = Duplicate(TheWorld().comm, &config);
       memset(name, 'x', sizeof name - 1);  // it is the library's copy that counts
       EXPECT_THAT(Works(comm.get()));
     }},
    {"config.channels_per_peer", "ncclCommInitRankConfig ncclCommSplit", kPage,
     "nChannelsPerNetPeer: the value must be a positive integer",
     [] {
       Refused(&ncclConfig_t::nChannelsPerNetPeer, 0);
       Accepted(&ncclConfig_t::nChannelsPerNetPeer, {1, 4});
     }},
    {"config.channels_round_up", "ncclCommSplit", kPage,
     "nChannelsPerNetPeer: rounded up to the next power of 2",
     [] { Accepted(&ncclConfig_t::nChannelsPerNetPeer, {3}); }},
    {"config.centric", "ncclCommInitRankConfig", "nccl.h",
     "ncclConfig_t: attributes that users are able to customize",
     [] {
       Refused(&ncclConfig_t::nvlinkCentricSched, 2);
       Accepted(&ncclConfig_t::nvlinkCentricSched, {0});
     }},
    {"config.many_at_once", "ncclCommInitRankConfig", "usage/communicators",
     "options: other config parameters can be set as well",
     [] {
       ncclConfig_t config = NonblockingConfig();
       config.minCTAs = 4;
       config.maxCTAs = 16;
       config.cgaClusterSize = 2;
       config.netName = "Socket";
       EXPECT_THAT(Works(FromNewId(&config).get()));
     }},
    {"config.specific_options", "ncclCommInitRankConfig", "usage/communicators",
     "options: creating a communicator with specific options",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.maxCTAs = 8;
       EXPECT_THAT(Works(FromNewId(&config).get()));
     }},
    {"config.of_2_18", "ncclCommSplit", "nccl.h",
     "ncclConfig_t: size and version say what the program was built with",
     [] {
       // Up to splitShare, then up to trafficClass.
       OldHeader<48>(NCCL_VERSION(2, 18, 1));
       OldHeader<56>(NCCL_VERSION(2, 26, 2));
     }},
};

}  // namespace

std::span<const Case> ConfigCases() {
  return kCases;
}

}  // namespace conformance
