#include "virtual_nccl/core/lifetime_log.h"

#include <cstdio>
#include <cstring>

#include "virtual_nccl/core/bus_id.h"
#include "virtual_nccl/core/creation_question.h"
#include "virtual_nccl/core/debug_log.h"

namespace vrank::nccl {

void LogInit(Library& library, const Creation& creation,
             const Communicator& communicator, const char* what) {
  if (!IsLogged(Subsystem::kInit))
    return;
  char origin[128];
  if (IsInit(creation))
    snprintf(origin, sizeof origin, "commId 0x%llx ",
             static_cast<unsigned long long>(communicator.hash));
  else
    // NCCL leaves out a blank before a child's START.
    snprintf(origin, sizeof origin, "parent %p splitCount %u color %d key %d%s",
             static_cast<const void*>(creation.parent),
             creation.excluded.empty() ? creation.splits_before + 1 : 0, creation.color,
             creation.key, strcmp(what, "START") == 0 ? "" : " ");
  LogInfo(Subsystem::kInit, communicator.device,
          "%s comm %p rank %u nranks %u cudaDev %d nvmlDev %d busId %llx %s- Init %s",
          creation.function, static_cast<const void*>(&communicator), communicator.rank,
          communicator.ranks, communicator.device,
          library.gpu().NodeDevice(communicator.device),
          static_cast<unsigned long long>(BusIdOf(communicator.device)), origin, what);
}

void LogEnd(const Communicator& communicator, const char* count, const char* what) {
  if (!IsLogged(Subsystem::kInit))
    return;
  LogInfo(Subsystem::kInit, communicator.device,
          "comm %p rank %u %s %u cudaDev %d busId %llx - %s",
          static_cast<const void*>(&communicator), communicator.rank, count,
          communicator.ranks, communicator.device,
          static_cast<unsigned long long>(BusIdOf(communicator.device)), what);
}

}  // namespace vrank::nccl
