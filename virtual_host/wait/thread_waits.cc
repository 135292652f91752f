#include "virtual_host/wait/thread_waits.h"

namespace vrank::host {

constinit ThreadWaits thread_waits;

}  // namespace vrank::host
