// The fat binary of hold_kernel.cu, taken into the library as it is.

#include "gpu_hold/hold_driver.h"

#ifdef VRANK_HOLD_IMAGE
asm(".section .rodata\n"
    ".balign 16\n"
    "vrank_hold_image:\n"
    ".incbin \"" VRANK_HOLD_IMAGE
    "\"\n"
    "vrank_hold_image_end:\n"
    ".byte 0\n"
    ".previous\n");
extern "C" __attribute__((visibility("hidden"))) const char vrank_hold_image[];
extern "C" __attribute__((visibility("hidden"))) const char vrank_hold_image_end[];

namespace vrank::hold {
std::string_view HoldKernelImage() {
  return {vrank_hold_image, vrank_hold_image_end};
}
}  // namespace vrank::hold
#else
namespace vrank::hold {
std::string_view HoldKernelImage() {
  return {};
}
}  // namespace vrank::hold
#endif
