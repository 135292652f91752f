// Reads the variables that options.h lists.

#include "tracer/options.h"

#include <cstdlib>
#include <cstring>

namespace vrank::tracer {
namespace {

const char* Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Options OptionsFromEnvironment() {
  Options options;
  options.file = Variable("VRANK_TRACE_FILE");
  options.cupti = Variable("VRANK_TRACE_CUPTI");
  const char* required = Variable("VRANK_TRACE_REQUIRED");
  options.required = *required != '\0' && strcmp(required, "0") != 0;
  return options;
}

}  // namespace vrank::tracer
