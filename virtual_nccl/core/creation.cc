// Init and split: arguments as NCCL 2.28.9 checks them (src/init.cc), then the
// question.

#include "virtual_nccl/core/creation.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/guest/nccl_trace.h"
#include "virtual_nccl/core/debug_log.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/group.h"
#include "virtual_nccl/core/unique_id.h"

namespace vrank::nccl {
namespace {

static_assert(protocol::kNoColor == NCCL_SPLIT_NOCOLOR);

ncclResult_t CheckInit(const InitArguments& arguments) {
  const char* function = arguments.function;
  if (arguments.id_count < 1 || arguments.id_count > arguments.ranks)
    return Fail(ncclInvalidArgument,
                "%s : invalid number of unique ids %d for %d ranks", function,
                arguments.id_count, arguments.ranks);
  if (ncclResult_t result = RequirePointer(arguments.out, function, "newcomm");
      result != ncclSuccess)
    return result;
  if (ncclResult_t result = RequirePointer(arguments.ids, function, "commId");
      result != ncclSuccess)
    return result;
  if (arguments.rank < 0 || arguments.rank >= arguments.ranks)
    return Fail(ncclInvalidArgument, "%s : invalid rank requested : %d/%d", function,
                arguments.rank, arguments.ranks);
  return ncclSuccess;
}

ncclResult_t RefuseSecondMember(const char* function) {
  return Fail(ncclInvalidUsage,
              "%s : several ranks of one communicator in one process are not modelled; "
              "run one process per GPU (docs/nccl_compat.md)",
              function);
}

ncclResult_t CheckAndAddInit(Library& library, Group& group,
                             const InitArguments& arguments) {
  if (ncclResult_t result = CheckInit(arguments); result != ncclSuccess)
    return result;
  const auto rank = static_cast<uint32_t>(arguments.rank);
  LogVersion(rank);
  Creation creation{};
  creation.function = arguments.function;
  creation.out = arguments.out;
  if (arguments.config != nullptr) {
    if (ncclResult_t result =
            ReadConfig(arguments.config, arguments.function, &creation.config);
        result != ncclSuccess)
      return result;
  }
  memcpy(&creation.id, arguments.ids, sizeof creation.id);
  const uint64_t hash = HashOf(creation.id);
  const Communicator* same_id = library.FindLiving(hash);
  if (same_id != nullptr && same_id->rank != rank)
    return RefuseSecondMember(arguments.function);
  creation.order = hash;
  creation.number = library.NextNumber();
  creation.joining = library.Add(std::make_unique<Communicator>(
      creation.number, static_cast<uint32_t>(arguments.ranks), rank,
      arguments.device == kCurrentDevice ? library.CurrentDevice() : arguments.device,
      hash, creation.config));
  *arguments.out = creation.joining->handle();
  group.Add(creation);
  return ncclSuccess;
}

ncclResult_t CheckAndAddSplit(Library& library, Group& group, ncclComm_t parent,
                              ncclComm_t* out, const ncclConfig_t* config,
                              Creation creation) {
  creation.function = "ncclCommSplit";
  creation.out = out;
  ncclResult_t result =
      FindReadyCommunicator(parent, creation.function, &creation.parent);
  if (result == ncclSuccess)
    result = RequirePointer(out, creation.function, "newcomm");
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
  group.Add(creation);
  return ncclSuccess;
}

// The emulator knows this number; tell it that nothing comes of it.
void Abandon(Library& library, uint32_t number) {
  protocol::CommRelease release{};
  release.record.kind = protocol::RecordKind::kCommRelease;
  release.communicator = number;
  release.release = protocol::ReleaseKind::kAbort;
  NcclTrace* const trace = FindNcclTrace();
  if (trace != nullptr)
    trace->BeginHostCall();
  library.channel().Ask(release);
  if (trace != nullptr)
    trace->EndRelease(release);
}

// What init and split have in common once the members have met.
ncclResult_t Complete(Library& library, const Creation& creation,
                      Communicator* communicator) {
  if (ncclResult_t result = library.ReserveMemory(communicator);
      result != ncclSuccess) {
    Abandon(library, creation.number);
    library.Retire(communicator);
    *creation.out = nullptr;
    return result;
  }
  communicator->set_state(CommunicatorState::kReady);
  *creation.out = communicator->handle();
  return ncclSuccess;
}

ncclResult_t CreateFromId(Library& library, const Creation& creation) {
  Communicator* joining = creation.joining;
  auto log = [&](const char* what) {
    LogInfo(joining->device,
            "%s comm %p rank %u nranks %u cudaDev %d commId 0x%llx - Init %s",
            creation.function, static_cast<void*>(joining), joining->rank,
            joining->ranks, joining->device,
            static_cast<unsigned long long>(joining->hash), what);
  };
  log("START");
  Channel& channel = library.channel();
  protocol::CommInit question{};
  question.record.kind = protocol::RecordKind::kCommInit;
  question.communicator = creation.number;
  question.ranks = joining->ranks;
  question.rank = joining->rank;
  question.device = static_cast<uint32_t>(joining->device);
  question.name = channel.Name(creation.config.name);
  memcpy(question.unique_id, creation.id.internal, sizeof question.unique_id);
  NcclTrace* const trace = FindNcclTrace();
  if (trace != nullptr)
    trace->BeginHostCall();
  channel.Ask(question);
  if (trace != nullptr)
    trace->EndInit(question, creation.config.name.c_str());
  if (channel.aborting()) {
    Discard(library, creation);
    return Fail(ncclRemoteError, "%s : the session is being called off",
                creation.function);
  }
  ncclResult_t result = Complete(library, creation, joining);
  if (result == ncclSuccess)
    log("COMPLETE");
  return result;
}

ncclResult_t CreateFromParent(Library& library, const Creation& creation) {
  Communicator* parent = creation.parent;
  if (parent->state() == CommunicatorState::kGone)
    return Fail(ncclInvalidUsage,
                "ncclCommSplit : comm was destroyed before the end of the group");
  Channel& channel = library.channel();
  const bool member = creation.color != NCCL_SPLIT_NOCOLOR;
  protocol::CommSplit question{};
  question.record.kind = protocol::RecordKind::kCommSplit;
  question.parent = parent->number;
  question.communicator = creation.number;
  question.color = creation.color;
  question.key = creation.key;
  question.name = member ? channel.Name(creation.config.name) : 0;
  NcclTrace* const trace = FindNcclTrace();
  if (trace != nullptr)
    trace->BeginHostCall();
  const uint64_t value = channel.Ask(question).value;
  const auto ranks = static_cast<uint32_t>(value >> 32);
  const auto rank = static_cast<uint32_t>(value);
  if (trace != nullptr)
    trace->EndSplit(question, member ? creation.config.name.c_str() : "", ranks, rank);
  if (channel.aborting())
    return Fail(ncclRemoteError, "ncclCommSplit : the session is being called off");
  if (!member)
    return ncclSuccess;
  if (rank >= ranks)
    return Fail(ncclInternalError, "ncclCommSplit : rank %u of %u in color %d", rank,
                ranks, creation.color);
  Communicator* child = library.Add(std::make_unique<Communicator>(
      creation.number, ranks, rank, parent->device,
      HashOfChild(parent->hash, creation.splits_before, creation.color),
      creation.config));
  ncclResult_t result = Complete(library, creation, child);
  if (result == ncclSuccess)
    LogInfo(child->device,
            "%s comm %p rank %u nranks %u cudaDev %d parent %p splitCount %u color %d "
            "key %d - Init COMPLETE",
            creation.function, static_cast<void*>(child), rank, ranks, child->device,
            static_cast<void*>(parent), creation.splits_before + 1, creation.color,
            creation.key);
  return result;
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
  const int visible = static_cast<int>(library.channel().settings().devices);
  if (ncclResult_t result = CheckDevices(count, devices, visible);
      result != ncclSuccess)
    return result;
  if (count == 0)
    return ncclSuccess;
  if (count > 1)
    return RefuseSecondMember(kFunction);
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  return InitRank(library, group,
                  {.function = kFunction,
                   .out = out,
                   .ranks = 1,
                   .rank = 0,
                   .ids = &id,
                   .device = devices != nullptr ? devices[0] : 0});
}

ncclResult_t Split(Library& library, Group& group, ncclComm_t parent, int color,
                   int key, ncclComm_t* out, const ncclConfig_t* config) {
  Creation creation{};
  creation.color = color;
  creation.key = key;
  group.Start();
  ncclResult_t result =
      group.Note(CheckAndAddSplit(library, group, parent, out, config, creation));
  ncclResult_t end = group.End(library);
  return result != ncclSuccess ? result : end;
}

ncclResult_t Create(Library& library, const Creation& creation) {
  return creation.parent == nullptr ? CreateFromId(library, creation)
                                    : CreateFromParent(library, creation);
}

void Discard(Library& library, const Creation& creation) {
  if (creation.joining != nullptr)
    library.Retire(creation.joining);
  *creation.out = nullptr;
}

}  // namespace vrank::nccl
