// Reads the launcher's variables; the TCP part is in id_exchange.cc.

#include "examples/gpt_trainer/world.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/checks.h"
#include "examples/gpt_trainer/id_exchange.h"

namespace gpt {
namespace {

int EnvironmentNumber(const char* name, int fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    return fallback;
  }
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [parsed, error] = std::from_chars(text, end, value);
  if (error != std::errc() || parsed != end || value < 0) {
    throw UsageError(std::string(name) + "='" + text + "' is not a rank or a size");
  }
  return value;
}

}  // namespace

World WorldFromEnvironment() {
  World world;
  world.rank = EnvironmentNumber("RANK", 0);
  world.size = EnvironmentNumber("WORLD_SIZE", 1);
  world.local_rank = EnvironmentNumber("LOCAL_RANK", 0);
  if (world.rank >= world.size) {
    throw UsageError("RANK " + std::to_string(world.rank) +
                     " is not below WORLD_SIZE " + std::to_string(world.size));
  }
  return world;
}

ncclUniqueId AgreeOnUniqueId(const World& world) {
  ncclUniqueId id{};
  // NCCL derives the id from NCCL_COMM_ID (host:port), so that each rank can ask for
  // it.
  if (std::getenv("NCCL_COMM_ID") != nullptr || world.size == 1) {
    GPT_CHECK_NCCL(ncclGetUniqueId(&id));
    return id;
  }
  if (world.rank == 0) {
    GPT_CHECK_NCCL(ncclGetUniqueId(&id));
    ServeBytes(EnvironmentNumber("MASTER_PORT", 29500), world.size - 1, &id,
               sizeof(id));
    return id;
  }
  const char* address = std::getenv("MASTER_ADDR");
  if (address == nullptr) {
    throw UsageError(
        "neither NCCL_COMM_ID nor MASTER_ADDR is set: ranks cannot find each other");
  }
  FetchBytes(address, EnvironmentNumber("MASTER_PORT", 29500), &id, sizeof(id));
  return id;
}

}  // namespace gpt
