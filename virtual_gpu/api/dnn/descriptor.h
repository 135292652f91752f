// cuDNN's backend descriptors: bags of named attributes that programs fill, link to
// each other and finalize.
//
// A descriptor keeps whatever it is given; graph_reader.h states what a graph of them
// computes.
//
// Thread rule: as in cuDNN, one thread at a time uses a descriptor and those it links.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_DESCRIPTOR_H_
#define VRANK_VIRTUAL_GPU_API_DNN_DESCRIPTOR_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "virtual_gpu/api/dnn/cudnn_abi.h"

namespace vrank::gpu::dnn {

class Computation;  // computation.h

// Bytes of one element; 0 for types that cuDNN 9.26 does not have.
size_t BytesOf(AttributeType type);

class Descriptor {
 public:
  struct Attribute {
    AttributeType type{};
    int64_t count = 0;
    std::vector<std::byte> bytes;  // empty for links
    std::vector<std::shared_ptr<Descriptor>> links;
  };

  explicit Descriptor(DescriptorType type) : type_(type) {}

  DescriptorType type() const { return type_; }
  bool finalized() const { return finalized_; }
  void Finalize() { finalized_ = true; }

  // Of an engine, and of a finalized plan: what it computes, and how.
  const std::shared_ptr<const Computation>& meaning() const { return meaning_; }
  void SetMeaning(std::shared_ptr<const Computation> meaning) {
    meaning_ = std::move(meaning);
  }

  void Set(AttributeName name, Attribute attribute) {
    attributes_[name] = std::move(attribute);
  }
  void SetLink(AttributeName name, std::shared_ptr<Descriptor> to) {
    Set(name, {AttributeType::kDescriptor, 1, {}, {std::move(to)}});
  }
  void SetInt64(AttributeName name, int64_t number) {
    std::vector<std::byte> bytes(sizeof number);
    std::memcpy(bytes.data(), &number, sizeof number);
    Set(name, {AttributeType::kInt64, 1, std::move(bytes), {}});
  }
  // nullptr where it was never set.
  const Attribute* Find(AttributeName name) const {
    const auto found = attributes_.find(name);
    return found == attributes_.end() ? nullptr : &found->second;
  }

  // The elements of an attribute; empty where it is missing or of another size.
  template <typename T>
  std::vector<T> Numbers(AttributeName name) const {
    const Attribute* const attribute = Find(name);
    if (attribute == nullptr || BytesOf(attribute->type) != sizeof(T))
      return {};
    std::vector<T> numbers(static_cast<size_t>(attribute->count));
    std::memcpy(numbers.data(), attribute->bytes.data(), attribute->bytes.size());
    return numbers;
  }
  template <typename T>
  std::optional<T> Number(AttributeName name) const {
    const std::vector<T> numbers = Numbers<T>(name);
    return numbers.empty() ? std::nullopt : std::optional<T>(numbers.front());
  }
  const std::vector<std::shared_ptr<Descriptor>>& Links(AttributeName name) const;
  // The first of them; nullptr where there is none.
  const Descriptor* Link(AttributeName name) const {
    const auto& links = Links(name);
    return links.empty() ? nullptr : links.front().get();
  }

 private:
  const DescriptorType type_;
  bool finalized_ = false;
  std::shared_ptr<const Computation> meaning_;
  std::map<AttributeName, Attribute> attributes_;
};

// What a cudnnBackendDescriptor_t points to: programs may destroy a descriptor that
// others link.
struct DescriptorHandle {
  static constexpr uint64_t kValid = 0x76726465'73637269;
  uint64_t magic = kValid;
  std::shared_ptr<Descriptor> descriptor;

  static DescriptorHandle* Find(void* handle) {
    auto* const found = static_cast<DescriptorHandle*>(handle);
    return found != nullptr && found->magic == kValid ? found : nullptr;
  }
};

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_DESCRIPTOR_H_
