// Hands a few bytes from one process to all others over TCP, once, at start.

#ifndef EXAMPLES_GPT_TRAINER_ID_EXCHANGE_H_
#define EXAMPLES_GPT_TRAINER_ID_EXCHANGE_H_

#include <cstddef>
#include <string>

namespace gpt {

// Listens on `port` of all interfaces and sends `bytes` bytes to each of `clients`
// connections, in the order in which they come. Throws std::runtime_error.
void ServeBytes(int port, int clients, const void* data, size_t bytes);

// Connects, retrying for a minute while nobody listens yet, and receives the bytes.
// Throws std::runtime_error.
void FetchBytes(const std::string& address, int port, void* data, size_t bytes);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_ID_EXCHANGE_H_
