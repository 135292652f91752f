// Ranks that move data among each other: NCCL's operations, as far as the trainer needs
// them.
//
// All calls are asynchronous on a stream. The members of a communicator make the same
// calls in the same order; what different streams do on one communicator runs in the
// order of the calls.
//
// Thread rule: the thread that trains.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_COMMUNICATOR_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_COMMUNICATOR_H_

#include <utility>
#include <vector>

#include "examples/gpt_trainer/device/device.h"
#include "examples/gpt_trainer/world.h"

namespace gpt {

enum class DataType { kElement, kFloat, kInt };
enum class Reduction { kSum, kMax };

template <typename T>
inline constexpr DataType kDataTypeOf = DataType::kElement;
template <>
inline constexpr DataType kDataTypeOf<float> = DataType::kFloat;
template <>
inline constexpr DataType kDataTypeOf<int> = DataType::kInt;

// One direction of an exchange with one peer.
struct Transfer {
  enum class Direction { kSend, kReceive };
  Direction direction;
  int peer;
  void* data;
  long long elements;
  DataType type;
};

template <typename T>
Transfer SendTo(int peer, const T* data, long long elements) {
  return {Transfer::Direction::kSend, peer, const_cast<T*>(data), elements,
          kDataTypeOf<T>};
}
template <typename T>
Transfer ReceiveFrom(int peer, T* data, long long elements) {
  return {Transfer::Direction::kReceive, peer, data, elements, kDataTypeOf<T>};
}

class Communicator {
 public:
  // Color of a rank that belongs to no child.
  static constexpr int kNoColor = -1;

  // Of nobody: size 1, no calls.
  Communicator() = default;
  // Blocks until all ranks of the world have come.
  explicit Communicator(const World& world);
  // Finalizes and destroys it, together with all members.
  ~Communicator();
  Communicator(Communicator&& other) noexcept
      : handle_(std::exchange(other.handle_, {})),
        rank_(other.rank_),
        size_(other.size_) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(rank_, other.rank_);
    std::swap(size_, other.size_);
    return *this;
  }

  // Ranks of equal color form a child, in the order of their keys.
  Communicator Split(int color, int key, const char* name) const;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // out = in of all members, reduced element by element; in may be out.
  template <typename T>
  void AllReduce(const T* in, T* out, long long elements, Reduction reduction,
                 StreamHandle stream) const {
    AllReduce(in, out, elements, kDataTypeOf<T>, reduction, stream);
  }
  // whole = the parts of all members, `part_elements` each; part may lie in its place.
  template <typename T>
  void AllGather(const T* part, T* whole, long long part_elements,
                 StreamHandle stream) const {
    AllGather(part, whole, part_elements, kDataTypeOf<T>, stream);
  }
  // part = this rank's part of the sum of all wholes; part may lie in its place.
  template <typename T>
  void ReduceScatter(const T* whole, T* part, long long part_elements,
                     StreamHandle stream) const {
    ReduceScatter(whole, part, part_elements, kDataTypeOf<T>, stream);
  }
  // All transfers at once: none waits for another. Empty ones are left out, on both
  // sides.
  void Exchange(const std::vector<Transfer>& transfers, StreamHandle stream) const;

 private:
  void AllReduce(const void* in, void* out, long long elements, DataType type,
                 Reduction reduction, StreamHandle stream) const;
  void AllGather(const void* part, void* whole, long long part_elements, DataType type,
                 StreamHandle stream) const;
  void ReduceScatter(const void* whole, void* part, long long part_elements,
                     DataType type, StreamHandle stream) const;

  CommunicatorHandle handle_{};
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_COMMUNICATOR_H_
