// libcudnn's version: none. PyTorch asks before it chooses attention kernels; a real
// version would send it to cuDNN's, of which nothing is modelled. The answer changes
// which kernels run, so each question is counted (`refused_calls`).

#include <cstddef>

#include "base/guest/channel.h"
#include "base/guest/export.h"

extern "C" VRANK_EXPORT size_t cudnnGetVersion() {
  if (vrank::Channel* const channel = vrank::FindChannel())
    channel->Count(vrank::LossId::kRefusedCall, 1, "cudnnGetVersion");
  return 0;
}
