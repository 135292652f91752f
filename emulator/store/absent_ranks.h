// What PyTorch's ranks put into the store: what a rank that is not there would have,
// and what a key means.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_STORE_ABSENT_RANKS_H_
#define VRANK_EMULATOR_STORE_ABSENT_RANKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace vrank::emulator {

// The value of a key that a real rank waits for and that no real rank will set:
//   .../cuda//N, .../cuda//LOW:HIGH, .../UniqueNCCLID:N, .../nccl_storekey_N_ROOT
//       an id of a communicator, which names the key, so that all readers read the same
//   ...:last_worker                                       the end of a barrier
// Other keys are an error that says what they are about.
absl::StatusOr<std::string> ValueOfAbsentRank(std::string_view key);

// Whether a key of PyTorch's holds the id of a communicator.
bool HoldsCommunicatorId(std::string_view key);

// Of a key that holds the id of a communicator for two ranks alone (".../LOW:HIGH").
struct PairOfKey {
  uint32_t low = 0, high = 0;
  bool of_world = false;  // ranks of the group of all ranks
};
std::optional<PairOfKey> PairOf(std::string_view key);

// Whether PyTorch itself reads and sets the key: the id of a communicator, an address
// of Gloo, the end of a barrier. Any other key is the program's.
bool IsKeyOfPytorch(std::string_view key);

// What a key that a rank waits for holds, and which rank sets it when: "the end of a
// barrier, set by the last rank to arrive". In the group of all ranks, ranks of the
// group are those of the job.
std::string MeaningOfKey(std::string_view key);

// For a key at which a rank of a Gloo group may say where it listens
// (".../cpu//N/RANK", of a group that was split from another ".../HASH//N/RANK"): what
// comes before the rank. Whether it is one is told by what a real rank has set there.
std::optional<std::string> GlooPrefix(std::string_view key);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_ABSENT_RANKS_H_
