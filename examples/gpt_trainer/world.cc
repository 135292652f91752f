// Reads the launcher's variables.

#include "examples/gpt_trainer/world.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "examples/gpt_trainer/arguments.h"

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

int MasterPort() {
  return EnvironmentNumber("MASTER_PORT", 29500);
}

}  // namespace gpt
