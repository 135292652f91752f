// The host backend's types; see device/device.h for the seam.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_HOST_BACKEND_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_HOST_BACKEND_H_

namespace gpt {

class HostStream;
class HostEvent;
class HostCommunicator;

using Element = float;
using StreamHandle = HostStream*;
using EventHandle = HostEvent*;
using CommunicatorHandle = HostCommunicator*;
struct NoHandle {};
using MultiplyHandle = NoHandle;

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_HOST_BACKEND_H_
