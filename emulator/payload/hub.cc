#include "emulator/payload/hub.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/guest/element_bytes.h"
#include "base/serialized_object.h"
#include "base/status_macros.h"

namespace vrank::emulator {

using graph::CollectiveCall;
using protocol::Payload;
using protocol::PayloadKey;
using protocol::PayloadState;

namespace {

absl::Status Malformed(std::string text) {
  return absl::InvalidArgumentError(fmt::format("payload: {}", text));
}

}  // namespace

uint64_t DefaultRetainedBytes() {
  constexpr uint64_t kLeast = uint64_t{512} << 20;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0)
    return kLeast;
  return std::max(kLeast,
                  static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) / 4);
}

PayloadHub::PayloadHub(const HubOptions& options, std::set<int32_t> real_ranks)
    : options_(options), real_ranks_(std::move(real_ranks)) {}

void PayloadHub::AddCommunicator(int32_t rank, uint32_t number,
                                 const std::string& identity,
                                 std::span<const int32_t> members, uint32_t index) {
  if (real_ranks_.count(rank) == 0)
    return;
  std::weak_ptr<Communicator>& known = communicators_[identity];
  std::shared_ptr<Communicator> communicator = known.lock();
  if (communicator == nullptr) {
    communicator = std::make_shared<Communicator>();
    communicator->identity = identity;
    communicator->members.assign(members.begin(), members.end());
    for (uint32_t i = 0; i < members.size(); ++i)
      if (real_ranks_.count(members[i]) != 0)
        communicator->real.push_back(i);
    communicator->called.resize(communicator->real.size());
    communicator->has_virtual = communicator->real.size() < members.size();
    communicator->has_lost =
        std::any_of(members.begin(), members.end(),
                    [this](int32_t member) { return lost_ranks_.count(member) != 0; });
    known = communicator;
  }
  const auto slot =
      std::lower_bound(communicator->real.begin(), communicator->real.end(), index);
  ++communicator->bindings;
  bindings_[Place{rank, number}] = Binding{
      communicator, index, static_cast<size_t>(slot - communicator->real.begin())};
}

absl::StatusOr<PayloadHub::Binding*> PayloadHub::Find(int32_t rank, uint32_t number) {
  const auto binding = bindings_.find(Place{rank, number});
  if (binding == bindings_.end())
    return Malformed(fmt::format("communicator {} does not exist", number));
  return &binding->second;
}

Operation& PayloadHub::At(Communicator& communicator, const Key& key) {
  std::shared_ptr<Operation>& operation = communicator.operations[key];
  if (operation == nullptr) {
    const auto size = static_cast<uint32_t>(communicator.members.size());
    operation = std::make_shared<Operation>(
        key.is_transfer != 0 ? std::vector<uint32_t>{key.from} : communicator.real,
        size);
  }
  return *operation;
}

absl::Status PayloadHub::Deposit(int32_t rank, const Payload& payload,
                                 std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(Binding * binding, Find(rank, payload.key.communicator));
  Communicator& communicator = *binding->communicator;
  const PayloadKey& key = payload.key;
  if (key.is_transfer != 0) {
    if (key.peer >= communicator.members.size())
      return Malformed(fmt::format("peer {} of a communicator of {}", key.peer,
                                   communicator.members.size()));
    if (key.is_transfer == protocol::kOwnPart && key.peer != binding->index)
      return Malformed(fmt::format("own part of member {}", key.peer));
    if (key.is_transfer != protocol::kOwnPart &&
        key.sequence < communicator.sent[{binding->index, key.peer}])
      return Malformed(fmt::format("transfer {} has been made already", key.sequence));
    const Key sent{key.is_transfer, binding->index, key.peer, key.sequence};
    RETURN_IF_ERROR(
        AddPiece(payload, bytes, &At(communicator, sent).contribution(0).content));
    if (key.is_transfer == protocol::kOwnPart && payload.last != 0)
      MirrorOwnPart(binding->communicator, sent, rank);
    return absl::OkStatus();
  }
  if (key.sequence < communicator.called[binding->slot])
    return Malformed(
        fmt::format("collective {} has been called already", key.sequence));
  RETURN_IF_ERROR(AddPiece(payload, bytes,
                           &At(communicator, Key{0, 0, 0, key.sequence})
                                .contribution(binding->slot)
                                .content));
  // A copy, which is no collective's record, and nobody else's to wait for.
  if (payload.last != 0 && communicator.members.size() == 1)
    return Collective(rank, key.communicator,
                      {.count = payload.offset + payload.bytes});
  return absl::OkStatus();
}

absl::Status PayloadHub::AddPiece(const Payload& payload,
                                  std::span<const std::byte> bytes, Content* content) {
  const uint64_t element = protocol::ElementBytes(payload.factor.type);
  if (payload.factor.state != protocol::FactorState::kNone &&
      (payload.offset % element != 0 || payload.bytes % element != 0))
    return Malformed(fmt::format("{} bytes at {} to be multiplied in elements of {}",
                                 payload.bytes, payload.offset, element));
  switch (payload.state) {
    case PayloadState::kKnown:
      if (bytes.size() != payload.bytes)
        return Malformed(
            fmt::format("{} bytes announced, {} present", payload.bytes, bytes.size()));
      retained_ += bytes.size();
      MakeRoom();
      if (retained_ > options_.retained_bytes) {
        retained_ -= bytes.size();
        dropped_bytes_ += bytes.size();
        return content->AddComputed(payload.offset, payload.bytes);
      }
      return payload.factor.state == protocol::FactorState::kNone
                 ? content->AddKnown(payload.offset, bytes, false)
                 : content->AddUnmultiplied(payload.offset, bytes, payload.factor);
    case PayloadState::kComputed:
      return content->AddComputed(payload.offset, payload.bytes);
    case PayloadState::kDerived:
      return content->AddDerived(payload.offset, payload.bytes,
                                 Content::Source{payload.source, payload.source_offset},
                                 payload.factor);
  }
  return Malformed(fmt::format("state {}", static_cast<uint32_t>(payload.state)));
}

absl::Status PayloadHub::Collective(int32_t rank, uint32_t number,
                                    const CollectiveCall& call) {
  ASSIGN_OR_RETURN(Binding * binding, Find(rank, number));
  Communicator& communicator = *binding->communicator;
  const Key key{0, 0, 0, communicator.called[binding->slot]++};
  Operation& operation = At(communicator, key);
  const auto bytes = BytesOf(call, communicator.members.size(), binding->index);
  const uint64_t end = operation.contribution(binding->slot).content.end();
  if (!bytes.has_value() || end > bytes->contribution)
    return Malformed(fmt::format("{} of {} elements takes {} bytes, {} came",
                                 graph::Name(call.operation), call.count,
                                 bytes.has_value() ? bytes->contribution : 0, end));
  if (!operation.call().has_value()) {
    operation.set_call(call);
    operation.set_calls_before(communicator.calls[call]++);
    operation.set_policy(PolicyFor(communicator, graph::Name(call.operation)));
  }
  if (!operation.Counts(binding->index)) {
    Content& unused = operation.contribution(binding->slot).content;
    retained_ -= unused.known_bytes();
    unused = Content();
  }
  Close(binding->communicator, key, binding->slot, rank);
  return absl::OkStatus();
}

absl::Status PayloadHub::Transfers(int32_t rank, uint32_t number,
                                   std::span<const protocol::Transfer> transfers) {
  ASSIGN_OR_RETURN(Binding * binding, Find(rank, number));
  const std::shared_ptr<Communicator> communicator = binding->communicator;
  const uint32_t from = binding->index;
  std::vector<Key> from_virtual;  // receives
  bool sends = false;
  for (const protocol::Transfer& transfer : transfers) {
    if (transfer.peer >= communicator->members.size())
      return Malformed(fmt::format("peer {} of a communicator of {}", transfer.peer,
                                   communicator->members.size()));
    if (transfer.is_send == 0) {
      if (real_ranks_.count(communicator->members[transfer.peer]) == 0)
        from_virtual.push_back(
            {1, transfer.peer, from, communicator->received[{transfer.peer, from}]++});
      continue;
    }
    sends = true;
    const Key key{1, from, transfer.peer, communicator->sent[{from, transfer.peer}]++};
    const uint64_t end = At(*communicator, key).contribution(0).content.end();
    if (end > transfer.bytes)
      return Malformed(fmt::format("{} bytes for a send of {}", end, transfer.bytes));
    Close(communicator, key, 0, rank);
  }
  communicator->to_mirror[from] = sends ? std::vector<Key>() : std::move(from_virtual);
  return absl::OkStatus();
}

void PayloadHub::MirrorOwnPart(const std::shared_ptr<Communicator>& communicator,
                               const Key& own_key, int32_t rank) {
  const auto own = communicator->operations.extract(own_key);
  const std::vector<Key> receives = std::move(communicator->to_mirror[own_key.from]);
  communicator->to_mirror.erase(own_key.from);
  const uint64_t known = own.mapped()->known_bytes();
  retained_ -= known;
  for (const Key& key : receives) {
    retained_ += known;
    MakeRoom();
    if (retained_ > options_.retained_bytes) {
      retained_ -= known;
      dropped_bytes_ += known;
      continue;
    }
    communicator->operations[key] = std::make_shared<Operation>(*own.mapped());
    Close(communicator, key, 0, rank);
  }
}

PayloadPolicy PayloadHub::PolicyFor(const Communicator& communicator,
                                    const char* operation) const {
  if (!communicator.has_virtual)
    return PayloadPolicy::kMirror;  // nobody is stood in for
  const PayloadPolicy otherwise =
      options_.recorded != nullptr ? PayloadPolicy::kRecorded : PayloadPolicy::kMirror;
  const PayloadPolicy policy =
      options_.rules != nullptr
          ? options_.rules->Find(communicator.identity, operation, otherwise)
          : otherwise;
  const bool missing =
      policy == PayloadPolicy::kRecorded && options_.recorded == nullptr;
  return missing ? PayloadPolicy::kMirror : policy;
}

PayloadHub::Fetched PayloadHub::Recorded(PayloadPolicy policy, const std::string& name,
                                         uint64_t offset, uint64_t bytes,
                                         Fetched fetched) const {
  if (policy == PayloadPolicy::kRecorded) {
    const auto found = options_.recorded->Find(name, offset, bytes);
    if (!found.empty())
      return {FetchState::kKnown, found.size(), found.size(), true,
              std::vector<std::byte>(found.begin(), found.end())};
  }
  if (options_.recording != nullptr && fetched.state == FetchState::kKnown)
    options_.recording->Add(name, offset, fetched.data);
  return fetched;
}

absl::StatusOr<PayloadHub::Fetched> PayloadHub::Fetch(int32_t rank,
                                                      const PayloadKey& key,
                                                      uint64_t offset, uint64_t bytes) {
  if (bytes == 0)
    return Fetched{FetchState::kKnown, 0, 0, false, {}};
  const auto binding = bindings_.find(Place{rank, key.communicator});
  if (binding == bindings_.end())  // released, and nothing known was ever in it
    return Fetched{FetchState::kComputed, bytes, 0, false, {}};
  return key.is_transfer != 0 ? FetchTransfer(binding->second, key, offset, bytes)
                              : FetchCollective(binding->second, key, offset, bytes);
}

namespace {

// Of each member's part in what a member gathers.
void NoteObject(PayloadHub::Fetched* fetched) {
  fetched->copies_object =
      fetched->mirrored_bytes != 0 && IsSerializedObject(fetched->data);
}

PayloadHub::Fetched ToFetched(const Content::Stretch& stretch,
                              std::vector<std::byte> data) {
  if (stretch.state != PayloadState::kKnown)
    return {PayloadHub::FetchState::kComputed, stretch.bytes, 0, false, {}};
  return {PayloadHub::FetchState::kKnown, stretch.bytes,
          stretch.mirrored ? stretch.bytes : 0, false, std::move(data)};
}

}  // namespace

absl::StatusOr<PayloadHub::Fetched> PayloadHub::FetchCollective(const Binding& binding,
                                                                const PayloadKey& key,
                                                                uint64_t offset,
                                                                uint64_t bytes) {
  const Communicator& communicator = *binding.communicator;
  if (key.sequence >= communicator.called[binding.slot])
    return Malformed(fmt::format("collective {} has not been called", key.sequence));
  const auto found = communicator.operations.find(Key{0, 0, 0, key.sequence});
  if (found == communicator.operations.end())  // all of it was computed
    return Fetched{FetchState::kComputed, bytes, 0, false, {}};
  Operation& operation = *found->second;
  const uint64_t result =
      BytesOf(*operation.call(), communicator.members.size(), binding.index)->result;
  if (offset >= result || bytes > result - offset)
    return Malformed(fmt::format("bytes {} to {} of a result of {}", offset,
                                 offset + bytes, result));
  if (!operation.ReadyFor(binding.index)) {
    if (NeverComes(communicator, operation))
      return Fetched{FetchState::kComputed, bytes, 0, false, {}};
    return Fetched{};
  }
  const uint64_t unfolded = operation.known_bytes();
  operation.Fold();
  retained_ -= unfolded - operation.known_bytes();
  std::vector<std::byte> data;
  const Content::Stretch stretch =
      operation.Result(binding.index, offset, bytes, &data);
  Fetched fetched = ToFetched(stretch, std::move(data));
  if (operation.call()->operation == protocol::CollectiveKind::kAllGather ||
      operation.call()->operation == protocol::CollectiveKind::kGather)
    NoteObject(&fetched);
  return Recorded(operation.policy(),
                  NameOfResult(communicator.identity, binding.index, *operation.call(),
                               operation.calls_before()),
                  offset, bytes, std::move(fetched));
}

std::shared_ptr<PayloadHub::Communicator> PayloadHub::LeadersCommunicator(
    const Communicator& communicator, uint32_t member) const {
  const int32_t rank = communicator.members[member];
  if (leader_of_ == nullptr || real_ranks_.count(rank) != 0)
    return nullptr;
  const auto place = leader_of_(rank, communicator.identity);
  const auto leader = place.has_value() ? bindings_.find(*place) : bindings_.end();
  if (leader == bindings_.end() || leader->second.index != member ||
      leader->second.communicator.get() == &communicator ||
      leader->second.communicator->members.size() != communicator.members.size())
    return nullptr;
  return leader->second.communicator;
}

PayloadHub::Fetched PayloadHub::MadeUpTransfer(const Binding& binding,
                                               const PayloadKey& key,
                                               PayloadPolicy policy, uint64_t offset,
                                               uint64_t bytes) const {
  if (policy == PayloadPolicy::kZero)
    return {FetchState::kKnown, bytes, bytes, false, std::vector<std::byte>(bytes)};
  const Key sent{1, key.peer, binding.index, key.sequence};
  const Communicator* communicator = binding.communicator.get();
  auto found = communicator->operations.find(sent);
  const std::shared_ptr<Communicator> leaders =
      found == communicator->operations.end() && policy != PayloadPolicy::kExact
          ? LeadersCommunicator(*communicator, key.peer)
          : nullptr;
  if (leaders != nullptr) {
    communicator = leaders.get();
    const auto count = leaders->sent.find({sent.from, sent.to});
    if ((count == leaders->sent.end() || count->second <= sent.sequence) &&
        !WillNotCall(*leaders, sent.from))
      return Fetched{};
    found = leaders->operations.find(sent);
  }
  if (found == communicator->operations.end()) {
    Fetched unknown{FetchState::kComputed, bytes, 0, false, {}};
    // What a leader has sent to a virtual rank may not be kept.
    if (policy != PayloadPolicy::kExact &&
        (leaders == nullptr || real_ranks_.count(leaders->members[sent.to]) == 0))
      unknown.unknown_from = binding.communicator->members[key.peer];
    return unknown;
  }
  if (found->second->contribution(0).content.has_derived())
    return Fetched{};
  std::vector<std::byte> data;
  const auto stretch = found->second->Received(offset, bytes, &data);
  Fetched made = ToFetched(stretch, std::move(data));
  if (made.state == FetchState::kKnown)
    made.mirrored_bytes = made.bytes;
  if (leaders == nullptr)  // a root's own part
    NoteObject(&made);
  return made;
}

absl::StatusOr<PayloadHub::Fetched> PayloadHub::FetchTransfer(const Binding& binding,
                                                              const PayloadKey& key,
                                                              uint64_t offset,
                                                              uint64_t bytes) {
  const Communicator& communicator = *binding.communicator;
  if (key.peer >= communicator.members.size())
    return Malformed(fmt::format("peer {} of a communicator of {}", key.peer,
                                 communicator.members.size()));
  const std::string name =
      NameOfTransfer(communicator.identity, key.peer, binding.index, key.sequence);
  if (real_ranks_.count(communicator.members[key.peer]) == 0) {
    const PayloadPolicy policy = PolicyFor(communicator, "transfer");
    return Recorded(policy, name, offset, bytes,
                    MadeUpTransfer(binding, key, policy, offset, bytes));
  }
  const auto sent = communicator.sent.find({key.peer, binding.index});
  if (sent == communicator.sent.end() || key.sequence >= sent->second) {
    if (WillNotCall(communicator, key.peer))
      return Fetched{FetchState::kComputed, bytes, 0, false, {}};
    return Fetched{};
  }
  const auto found =
      communicator.operations.find(Key{1, key.peer, binding.index, key.sequence});
  if (found == communicator.operations.end())
    return Fetched{FetchState::kComputed, bytes, 0, false, {}};
  Operation& operation = *found->second;
  if (operation.contribution(0).content.has_derived())
    return Fetched{};
  std::vector<std::byte> data;
  const Content::Stretch stretch = operation.Received(offset, bytes, &data);
  return Recorded(PayloadPolicy::kMirror, name, offset, bytes,
                  ToFetched(stretch, std::move(data)));
}

}  // namespace vrank::emulator
