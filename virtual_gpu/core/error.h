// What a call on the virtual GPU ends with.
//
// The numbers are CUDA's. Since CUDA 10.1 cudaError_t and CUresult give the same number
// to the same thing, so both libraries return these by a cast. (Where a number means
// something in one of them only, the comment says so.)
//
// Thread rule: plain values.

#ifndef VRANK_VIRTUAL_GPU_CORE_ERROR_H_
#define VRANK_VIRTUAL_GPU_CORE_ERROR_H_

namespace vrank::gpu {

enum class [[nodiscard]] Error : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,         // runtime: cudaErrorInitializationError
  kInvalidConfiguration = 9,   // runtime only
  kInvalidPitch = 12,          // runtime only
  kInvalidSymbol = 13,         // runtime only
  kInvalidCopyDirection = 21,  // runtime only
  kDevicesUnavailable = 46,
  kInvalidDeviceFunction = 98,  // runtime only
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,  // runtime: cudaErrorDeviceUninitialized
  kNoBinaryForGpu = 209,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,  // sticky: nothing of the process works any more
  kLaunchOutOfResources = 701,
  // For a wait that would last for ever, since a rank has failed. Not sticky: once its
  // communicators are aborted the process may go on.
  kLaunchTimeout = 702,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kAssert = 710,  // sticky, likewise
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kCooperativeLaunchTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kGraphExecUpdateFailure = 910,
  kInvalidClusterSize = 912,
};

}  // namespace vrank::gpu

// Returns the error of `expression`, if it is one, from the calling function.
#define VRANK_RETURN_IF_FAILED(expression)               \
  do {                                                   \
    if (const ::vrank::gpu::Error error_ = (expression); \
        error_ != ::vrank::gpu::Error::kSuccess)         \
      return error_;                                     \
  } while (false)

#endif  // VRANK_VIRTUAL_GPU_CORE_ERROR_H_
