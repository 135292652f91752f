#include "tools/machine/version.h"

namespace vrank::tools {

const char* Version() {
  return VRANK_VERSION;
}

}  // namespace vrank::tools
