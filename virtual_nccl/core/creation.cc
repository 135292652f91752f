// Init, split and shrink: arguments as NCCL 2.28.9 checks them (src/init.cc).

#include "virtual_nccl/core/creation.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/guest/nccl_trace.h"
#include "virtual_nccl/core/debug_log.h"
#include "virtual_nccl/core/environment.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/group.h"
#include "virtual_nccl/core/meeting.h"
#include "virtual_nccl/core/release.h"
#include "virtual_nccl/core/unique_id.h"

namespace vrank::nccl {
namespace {

ncclResult_t CheckInit(const InitArguments& arguments) {
  const char* function = arguments.function;
  if (arguments.id_count < 1 || arguments.id_count > arguments.ranks)
    return Fail(ncclInvalidArgument,
                "%s : invalid number of unique ids %d for %d ranks", function,
                arguments.id_count, arguments.ranks);
  if (ncclResult_t result = RequirePointer(arguments.out, function, "newcomm");
      result != ncclSuccess)
    return result;
  *arguments.out = nullptr;
  if (ncclResult_t result = RequirePointer(arguments.ids, function, "commId");
      result != ncclSuccess)
    return result;
  if (arguments.rank < 0 || arguments.rank >= arguments.ranks)
    return Fail(ncclInvalidArgument, "%s : invalid rank requested : %d/%d", function,
                arguments.rank, arguments.ranks);
  return ncclSuccess;
}

// The program has the handle from here on: nothing is written later. A caller's
// variable may be gone when the members have met.
ncclResult_t CheckAndAddInit(Library& library, Group& group,
                             const InitArguments& arguments) {
  if (ncclResult_t result = CheckInit(arguments); result != ncclSuccess)
    return result;
  const auto rank = static_cast<uint32_t>(arguments.rank);
  LogVersion(rank);
  Creation creation{};
  creation.function = arguments.function;
  creation.out = arguments.out;
  creation.config =
      arguments.inherited != nullptr ? *arguments.inherited : DefaultConfig();
  if (arguments.config != nullptr) {
    if (ncclResult_t result =
            ReadConfig(arguments.config, arguments.function, &creation.config);
        result != ncclSuccess)
      return result;
  }
  memcpy(&creation.id, arguments.ids, sizeof creation.id);
  const uint64_t hash = HashOf(creation.id);
  creation.order = hash;
  if (arguments.device != kCurrentDevice)
    library.MakeContext(arguments.device);
  creation.number = library.NextNumber();
  creation.joining = library.Add(std::make_unique<Communicator>(
      creation.number, static_cast<uint32_t>(arguments.ranks), rank,
      arguments.device == kCurrentDevice ? library.CurrentDevice() : arguments.device,
      hash, HashOfPassed(creation.id), creation.config));
  NoteEnvironment(creation.joining->device);
  const ncclResult_t result = group.Add(creation);
  if (result != ncclSuccess) {
    library.Retire(creation.joining);
    return result;
  }
  *arguments.out = creation.joining->handle();
  return ncclSuccess;
}

// What split and shrink have in common. creation.function, color, key and excluded are
// set; the arguments of a shrink have been looked at.
ncclResult_t CheckAndAddChild(Library& library, Group& group, ncclComm_t parent,
                              ncclComm_t* out, const ncclConfig_t* config,
                              Creation creation) {
  creation.out = out;
  ncclResult_t result =
      FindReadyCommunicator(library, parent, creation.function, &creation.parent);
  if (result == ncclSuccess)
    result = RequirePointer(out, creation.function, "newcomm");
  // One that a member of it cannot join; a shrink may leave that one out.
  if (result == ncclSuccess && !creation.aborts &&
      library.channel().BrokenBy(creation.parent->number) != nullptr)
    result = library.FailRemotely(creation.function, creation.parent);
  if (result != ncclSuccess)
    return result;
  *out = nullptr;
  creation.config = creation.parent->config;
  if (config != nullptr && creation.color != NCCL_SPLIT_NOCOLOR) {
    result = ReadConfig(config, creation.function, &creation.config);
    if (result != ncclSuccess)
      return result;
  }
  creation.order = creation.parent->hash;
  creation.number = library.NextNumber();
  {
    std::lock_guard lock(creation.parent->mutex);
    creation.splits_before = creation.parent->splits++;
  }
  return group.Add(creation);
}

ncclResult_t CheckAndAddShrink(Library& library, Group& group,
                               const ShrinkArguments& arguments) {
  Creation creation{};
  creation.function = "ncclCommShrink";
  Communicator* parent = nullptr;
  ncclResult_t result = FindCommunicator(arguments.parent, creation.function, &parent);
  const bool aborts = (arguments.flags & NCCL_SHRINK_ABORT) != 0;
  if (result == ncclSuccess && aborts && library.channel().aborting())
    return Fail(
        ncclRemoteError,
        "%s : NCCL_SHRINK_ABORT cannot go on without a rank that has failed: the "
        "job ends with it (docs/nccl_compat.md; vrank emulate --survive-failures lets "
        "it go on): %s",
        creation.function, library.channel().failure());
  if (result == ncclSuccess && aborts)
    result = StopWork(library, parent, creation.function);
  if (result == ncclSuccess)
    result = RequirePointer(arguments.out, creation.function, "newcomm");
  if (result == ncclSuccess)
    result = RequirePointer(arguments.excluded, creation.function, "excludeRanksList");
  if (result != ncclSuccess)
    return result;
  if (arguments.excluded_count <= 0)
    return Fail(ncclInvalidArgument, "%s : excludeRanksCount is %d", creation.function,
                arguments.excluded_count);
  std::sort(arguments.excluded, arguments.excluded + arguments.excluded_count);
  for (int i = 0; i < arguments.excluded_count; ++i) {
    const int rank = arguments.excluded[i];
    if (rank == static_cast<int>(parent->rank))
      return Fail(ncclInvalidArgument, "%s : rank %d excludes itself",
                  creation.function, rank);
    // NCCL counts such entries, so that it numbers ranks that do not exist: one member
    // of the new communicator gets this code, the others wait for it.
    const bool repeated = i > 0 && rank == arguments.excluded[i - 1];
    if (rank < 0 || rank >= static_cast<int>(parent->ranks) || repeated)
      return Fail(ncclInvalidArgument,
                  "%s : excludeRanksList has rank %d%s of %u ranks", creation.function,
                  rank, repeated ? " twice," : "", parent->ranks);
    creation.excluded.push_back(static_cast<uint32_t>(rank));
  }
  if (FindNcclTrace() != nullptr)
    return Fail(ncclInvalidUsage, "%s cannot be traced (docs/nccl_compat.md)",
                creation.function);
  creation.key = static_cast<int>(parent->rank);
  creation.aborts = aborts;
  return CheckAndAddChild(library, group, arguments.parent, arguments.out,
                          arguments.config, std::move(creation));
}

// Ends the group of one call. A split or shrink that nobody waits for is a success.
ncclResult_t EndChild(Library& library, Group& group, ncclResult_t result) {
  group.Note(result);
  ncclResult_t end = group.End(library);
  if (end == ncclInProgress)
    end = ncclSuccess;
  return result != ncclSuccess ? result : end;
}

ncclResult_t CheckDevices(int count, const int* devices, int visible) {
  for (int i = 0; i < count; ++i) {
    int device = devices != nullptr ? devices[i] : i;
    if (device < 0 || device >= visible)
      return Fail(ncclInvalidArgument,
                  "ncclCommInitAll : invalid device %d (%d visible)", device, visible);
    if (devices != nullptr && std::find(devices, devices + i, device) != devices + i)
      return Fail(ncclInvalidUsage, "ncclCommInitAll : device %d is listed twice",
                  device);
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t InitRank(Library& library, Group& group, const InitArguments& arguments) {
  group.Start();
  ncclResult_t result = group.Note(CheckAndAddInit(library, group, arguments));
  ncclResult_t end = group.End(library);
  return result != ncclSuccess ? result : end;
}

ncclResult_t InitAll(Library& library, Group& group, ncclComm_t* out, int count,
                     const int* devices) {
  constexpr char kFunction[] = "ncclCommInitAll";
  if (ncclResult_t result = RequirePointer(out, kFunction, "comms");
      result != ncclSuccess)
    return result;
  if (count < 0)
    return Fail(ncclInvalidArgument, "%s : invalid device count requested : %d",
                kFunction, count);
  const int visible = library.gpu().DeviceCount();
  if (ncclResult_t result = CheckDevices(count, devices, visible);
      result != ncclSuccess)
    return result;
  if (count == 0)
    return ncclSuccess;
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  group.Start();
  for (int i = 0; i < count; ++i)
    InitRank(library, group,
             {.function = kFunction,
              .out = &out[i],
              .ranks = count,
              .rank = i,
              .ids = &id,
              .device = devices != nullptr ? devices[i] : i});
  return group.End(library);
}

ncclResult_t Split(Library& library, Group& group, ncclComm_t parent, int color,
                   int key, ncclComm_t* out, const ncclConfig_t* config) {
  Creation creation{};
  creation.function = "ncclCommSplit";
  creation.color = color;
  creation.key = key;
  group.Start();
  return EndChild(library, group,
                  CheckAndAddChild(library, group, parent, out, config, creation));
}

ncclResult_t Shrink(Library& library, Group& group, const ShrinkArguments& arguments) {
  group.Start();
  return EndChild(library, group, CheckAndAddShrink(library, group, arguments));
}

ncclResult_t GrowId(Library& library, ncclComm_t handle, ncclUniqueId* id) {
  constexpr char kFunction[] = "ncclCommGetUniqueId";
  Communicator* parent = nullptr;
  ncclResult_t result = FindReadyCommunicator(library, handle, kFunction, &parent);
  if (result == ncclSuccess)
    result = RequirePointer(id, kFunction, "uniqueId");
  if (result != ncclSuccess)
    return result;
  std::lock_guard lock(parent->mutex);
  if (std::exchange(parent->grow_id_is_out, true))
    return Fail(ncclInvalidUsage,
                "%s : the id of an earlier call has not been used by ncclCommGrow",
                kFunction);
  *id = MakeGrowId(parent->hash, parent->grows);
  return ncclSuccess;
}

ncclResult_t Grow(Library& library, Group& group, const GrowArguments& arguments) {
  constexpr char kFunction[] = "ncclCommGrow";
  InitArguments init{.function = kFunction,
                     .out = arguments.out,
                     .ranks = arguments.ranks,
                     .rank = arguments.rank,
                     .ids = arguments.id,
                     .config = arguments.config};
  if (arguments.parent == nullptr)
    return InitRank(library, group, init);
  Communicator* parent = nullptr;
  ncclResult_t result =
      FindReadyCommunicator(library, arguments.parent, kFunction, &parent);
  if (result == ncclSuccess)
    result = RequirePointer(arguments.out, kFunction, "newcomm");
  if (result != ncclSuccess)
    return group.Note(result);
  if (arguments.rank != -1 || arguments.ranks <= static_cast<int>(parent->ranks))
    return group.Note(Fail(ncclInvalidArgument,
                           "%s : a member of a communicator of %u ranks passes rank -1 "
                           "and more ranks, not rank %d and %d ranks",
                           kFunction, parent->ranks, arguments.rank, arguments.ranks));
  ncclUniqueId id{};
  {
    std::lock_guard lock(parent->mutex);
    id = MakeGrowId(parent->hash, parent->grows);
    if (arguments.id != nullptr && memcmp(arguments.id, &id, sizeof id) != 0)
      return group.Note(Fail(ncclInvalidArgument,
                             "%s : uniqueId is not the one of ncclCommGetUniqueId, or "
                             "was used before",
                             kFunction));
    ++parent->grows;
    parent->grow_id_is_out = false;
  }
  init.rank = static_cast<int>(parent->rank);
  init.ids = &id;
  init.inherited = &parent->config;
  init.device = parent->device;
  return InitRank(library, group, init);
}

}  // namespace vrank::nccl
