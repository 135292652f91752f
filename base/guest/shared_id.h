// How a unique id begins that every process makes for itself (NCCL_COMM_ID).
//
// The n-th id of each process is the same one then, whatever it is used for: it says
// nothing about who belongs together.
//
// Thread rule: a constant.

#ifndef VRANK_BASE_GUEST_SHARED_ID_H_
#define VRANK_BASE_GUEST_SHARED_ID_H_

namespace vrank {

inline constexpr char kSharedIdPrefix[] = "vrank NCCL_COMM_ID ";

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_SHARED_ID_H_
