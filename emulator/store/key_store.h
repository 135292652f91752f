// The keys of a rendezvous and who waits for them: what PyTorch's TCPStore does,
// without sockets.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_STORE_KEY_STORE_H_
#define VRANK_EMULATOR_STORE_KEY_STORE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>

#include "emulator/store/store_request.h"

namespace vrank::emulator {

class KeyStore {
 public:
  using Client = int;
  // What is to be sent, by client.
  using Replies = std::map<Client, std::string>;

  // Carries out a request. An error: the client asks for what cannot be (a sum with a
  // text); it is to be disconnected.
  absl::Status Handle(Client client, const StoreRequest& request, Replies* replies);
  void Set(const std::string& key, std::string value, Replies* replies);
  void Forget(Client client) { waiting_.erase(client); }

  bool Has(const std::string& key) const { return values_.count(key) != 0; }
  // nullptr where it is not set.
  const std::string* Find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  // Values of the keys that are this prefix and a number, by number.
  std::map<uint32_t, std::string> Numbered(const std::string& prefix) const;
  // Keys that a client waits for and that none has set, in order, each once.
  std::vector<std::string> Missing() const;
  struct Wait {
    Client client = 0;
    std::string key;  // the first of those that are missing
  };
  // Of every client that waits.
  std::vector<Wait> Waits() const;

 private:
  // Replies to those whose keys are all there.
  void Wake(Replies* replies);
  bool HasAll(const std::vector<std::string>& keys) const;
  absl::Status Add(const StoreRequest& request, std::string* out);

  std::map<std::string, std::string> values_;
  std::map<Client, std::vector<std::string>> waiting_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_KEY_STORE_H_
