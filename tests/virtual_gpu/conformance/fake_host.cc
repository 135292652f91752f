// Stands in for libvrank_host.so where there is no emulator: every question is answered
// by FakeChannel. With it the guest libraries can be tested in a process of their own.

#include "base/guest/export.h"
#include "tests/virtual_gpu/core/fake_channel.h"

extern "C" VRANK_EXPORT vrank::Channel* vrank_guest_channel(uint32_t abi) {
  static vrank::FakeChannel* const channel = new vrank::FakeChannel;
  return abi == vrank::Channel::kAbi ? channel : nullptr;
}
