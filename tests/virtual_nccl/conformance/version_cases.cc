// Chapter "Communicator Creation and Management Functions", what needs no communicator:
// versions, texts of errors, unique ids.

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

int Version() {
  int version = 0;
  EXPECT_OK(ncclGetVersion(&version));
  return version;
}

ncclUniqueId NewId() {
  ncclUniqueId id;
  memset(&id, 0x5a, sizeof id);
  EXPECT_OK(ncclGetUniqueId(&id));
  return id;
}

// Any error that needs neither GPU nor communicator and leaves a message.
void Provoke() {
  int count = 0;
  EXPECT_CODE(ncclInvalidArgument, ncclCommCount(nullptr, &count));
}

std::string LastError() {
  const char* text = ncclGetLastError(nullptr);
  return text != nullptr ? text : "";
}

void EveryCodeHasItsOwnText() {
  std::set<std::string> texts;
  for (int code = 0; code < ncclNumResults; ++code) {
    const char* text = ncclGetErrorString(static_cast<ncclResult_t>(code));
    EXPECT_THAT(text != nullptr && *text != '\0');
    texts.insert(text != nullptr ? text : "");
  }
  EXPECT_THAT(texts.size() == ncclNumResults);
}

constexpr char kPage[] = "api/comms";

constexpr Case kCases[] = {
    {"version.number", "ncclGetVersion", kPage,
     "ncclGetVersion: the version of the currently linked library",
     [] { EXPECT_THAT(Version() >= NCCL_VERSION(2, 4, 0)); }, kNoDevice},
    {"version.same_as_header", "ncclGetVersion", kPage,
     "ncclGetVersion: the same as NCCL_VERSION_CODE",
     [] { EXPECT_THAT(Version() == NCCL_VERSION_CODE); }, kNoDevice},
    {"version.levels", "ncclGetVersion", kPage,
     "ncclGetVersion: encoded, includes MAJOR, MINOR and PATCH",
     [] {
       EXPECT_THAT(Version() / 10000 == NCCL_MAJOR);
       EXPECT_THAT(Version() / 100 % 100 == NCCL_MINOR);
       EXPECT_THAT(Version() % 100 == NCCL_PATCH);
     },
     kNoDevice},
    {"version.comparable", "ncclGetVersion", kPage,
     "ncclGetVersion: can be compared using NCCL_VERSION",
     [] {
       EXPECT_THAT(Version() == NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
       EXPECT_THAT(Version() > NCCL_VERSION(2, 8, 4));
     },
     kNoDevice},
    {"version.header", "ncclGetVersion", "nccl.h",
     "ncclGetVersion: return the code in the supplied integer",
     [] {
       int numbers[3] = {7, 7, 7};
       EXPECT_OK(ncclGetVersion(&numbers[1]));
       EXPECT_THAT(numbers[0] == 7 && numbers[1] > 20000 && numbers[2] == 7);
     },
     kNoDevice},
    {"version.null", "ncclGetVersion", "usage/communicators",
     "errors (3): incorrect argument, like a NULL pointer",
     [] { EXPECT_CODE(ncclInvalidArgument, ncclGetVersion(nullptr)); }, kNoDevice},
    {"texts.every_code", "ncclGetErrorString", kPage,
     "ncclGetErrorString: string corresponding to the error code",
     EveryCodeHasItsOwnText, kNoDevice},
    {"texts.each_code", "ncclGetErrorString", "nccl.h",
     "ncclGetErrorString: a string for each error code",
     [] {
       EXPECT_THAT(ncclGetErrorString(ncclInvalidUsage) ==
                   ncclGetErrorString(ncclInvalidUsage));
       EXPECT_THAT(ncclGetErrorString(ncclNumResults) != nullptr);
     },
     kNoDevice},
    {"texts.last_error", "ncclGetLastError", kPage,
     "ncclGetLastError: string corresponding to the last error",
     [] {
       Provoke();
       EXPECT_THAT(!LastError().empty());
     },
     kNoDevice},
    {"texts.last_error_is_kept", "ncclGetLastError", kPage,
     "ncclGetLastError: not cleared by calling this function",
     [] {
       Provoke();
       const std::string once = LastError();
       EXPECT_THAT(once == LastError());
     },
     kNoDevice},
    {"texts.last_error_is_older", "ncclGetLastError", kPage,
     "ncclGetLastError: could be unrelated to the current call",
     [] {
       Provoke();
       const std::string before = LastError();
       Version();
       EXPECT_THAT(before == LastError());
     },
     kNoDevice},
    {"texts.last_error_readable", "ncclGetLastError", "nccl.h",
     "ncclGetLastError: human-readable message of the last error",
     [] {
       Provoke();
       const std::string text = LastError();
       EXPECT_THAT(std::all_of(text.begin(), text.end(), [](char letter) {
         return letter == '\n' || (letter >= ' ' && letter <= '~');
       }));
     },
     kNoDevice},
    {"id.generated", "ncclGetUniqueId", kPage,
     "ncclGetUniqueId: generates an Id to be used in ncclCommInitRank",
     [] {
       const ncclUniqueId a = NewId(), b = NewId();
       EXPECT_THAT(memcmp(&a, &b, sizeof a) != 0);
     }},
    {"id.object_of_the_user", "ncclGetUniqueId", kPage,
     "ncclGetUniqueId: uniqueId should point to an object of the user",
     [] {
       struct {
         char before = 1;
         ncclUniqueId id;
         char after = 2;
       } place;
       EXPECT_OK(ncclGetUniqueId(&place.id));
       EXPECT_THAT(place.before == 1 && place.after == 2);
       EXPECT_CODE(ncclInvalidArgument, ncclGetUniqueId(nullptr));
     }},
    {"id.distributed", "ncclGetUniqueId ncclCommInitRank", kPage,
     "ncclGetUniqueId: called once, distributed to all ranks",
     [] {
       const Comm comm = FromNewId();
       EXPECT_THAT(CountOf(comm.get()) == TheWorld().size);
     }},
    {"id.before_init", "ncclGetUniqueId ncclCommInitRank", "usage/communicators",
     "Creating: first create a unique object to understand they belong together",
     [] {
       const Comm one = FromNewId(), other = FromNewId();
       EXPECT_THAT(Works(one.get()) && Works(other.get()));
     }},
    {"id.any_transport", "ncclGetUniqueId", "usage/communicators",
     "Creating: an ID to be broadcast using any CPU communication system",
     [] {
       // A copy of the bytes is as good as the original.
       const ncclUniqueId original = SharedId();
       ncclUniqueId copy;
       std::copy(std::begin(original.internal), std::end(original.internal),
                 copy.internal);
       Comm comm;
       EXPECT_OK(ncclCommInitRank(comm.out(), TheWorld().size, copy, TheWorld().rank));
       EXPECT_THAT(Works(comm.get()));
     }},
};

}  // namespace

std::span<const Case> VersionCases() {
  return kCases;
}

}  // namespace conformance
