#include "virtual_gpu/api/dnn/attention.h"

#include <span>

#include "virtual_gpu/api/dnn/attention_kernels.h"
#include "virtual_gpu/api/dnn/tensor_facts.h"

namespace vrank::gpu::dnn {
namespace {

// cudnnPointwiseMode_t.
constexpr int kAdd = 0, kExp = 13, kCompareGreaterOrEqual = 303, kGenerateIndex = 501;

constexpr size_t kForwardProducts = 2, kBackwardProducts = 5;

// Which attribute of an operation is the tensor that it makes.
AttributeName ResultOf(DescriptorType operation) {
  switch (operation) {
    case DescriptorType::kOperationMatmul:
      return AttributeName::kMatmulC;
    case DescriptorType::kOperationReduction:
      return AttributeName::kReductionY;
    case DescriptorType::kOperationSdpaForward:
      return AttributeName::kSdpaO;
    default:
      return AttributeName::kOperationPointwiseY;
  }
}

struct Product {
  const Descriptor* a;
  const Descriptor* b;
};

// What operations beside the products say.
void ReadPointwise(const Descriptor& operation, bool* indices, Attention* into) {
  const int mode = PointwiseMode(operation);
  const Descriptor* const b = operation.Link(AttributeName::kOperationPointwiseB);
  *indices |= mode == kGenerateIndex;
  into->causal |= mode == kCompareGreaterOrEqual && *indices;
  into->bias |= mode == kAdd && b != nullptr && InMemory(*b) &&
                Dimensions(b).size() == 4 && Dimensions(b).back() == into->keys;
}

// Q: [batch, heads, queries, width]; keys per head; V: [batch, key heads, keys, width].
bool ReadShape(const Descriptor& q_tensor, int64_t keys, const Descriptor& v_tensor,
               Attention* into) {
  const std::vector<int64_t> q = Dimensions(&q_tensor), v = Dimensions(&v_tensor);
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int64_t number : {q[0], q[1], q[2], q[3], keys, v[1], v[3]}) {
    if (number <= 0 || number >= kMost)
      return false;
  }
  const DataType type = TypeOf(q_tensor);
  if (type != DataType::kHalf && type != DataType::kBfloat16)
    return false;
  into->bfloat16 = type == DataType::kBfloat16;
  into->batch = static_cast<uint32_t>(q[0]);
  into->heads = static_cast<uint32_t>(q[1]);
  into->queries = static_cast<uint32_t>(q[2]);
  into->width = static_cast<uint32_t>(q[3]);
  into->key_heads = static_cast<uint32_t>(v[1]);
  into->keys = static_cast<uint32_t>(keys);
  into->value_width = static_cast<uint32_t>(v[3]);
  return true;
}

// The first product is Q K^T; the second P V, or P^T dO and then dO V^T.
bool ReadProducts(std::span<const Product> products, Attention* into) {
  if (products.size() != kForwardProducts && products.size() != kBackwardProducts)
    return false;
  for (const Product& product : products) {
    if (Dimensions(product.a).size() != 4 || Dimensions(product.b).size() != 4)
      return false;
  }
  const Product& first = products.front();
  if (!InMemory(*first.a) || !InMemory(*first.b))
    return false;
  into->backward = products.size() == kBackwardProducts;
  if (!ReadShape(*first.a, Dimensions(first.b)[3], *products[1].b, into))
    return false;
  // K's: on the way back the second product has dO in V's place.
  into->key_heads = static_cast<uint32_t>(Dimensions(first.b)[1]);
  return true;
}

bool ReadOneOperation(const Descriptor& operation, Attention* into) {
  const Descriptor* const q = operation.Link(AttributeName::kSdpaQ);
  const Descriptor* const v = operation.Link(AttributeName::kSdpaV);
  return Dimensions(q).size() == 4 && Dimensions(v).size() == 4 &&
         ReadShape(*q, Dimensions(v)[2], *v, into);
}

}  // namespace

std::shared_ptr<const Attention> ReadAttention(const Descriptor& graph,
                                               std::string* why) {
  const auto& operations = graph.Links(AttributeName::kGraphOperations);
  auto made = std::make_shared<Attention>();
  std::vector<Product> products;
  bool softmax = false;
  for (const auto& operation : operations) {
    made->dropout |= operation->type() == DescriptorType::kOperationRng;
    softmax |= PointwiseMode(*operation) == kExp;
    if (operation->type() == DescriptorType::kOperationMatmul)
      products.push_back({operation->Link(AttributeName::kMatmulA),
                          operation->Link(AttributeName::kMatmulB)});
  }
  const bool one = operations.size() == 1 &&
                   operations[0]->type() == DescriptorType::kOperationSdpaForward;
  if (!(one ? ReadOneOperation(*operations[0], made.get())
            : softmax && ReadProducts(products, made.get()))) {
    *why =
        "a graph of cuDNN's that is neither a convolution nor attention in half "
        "precision (operations: " +
        std::to_string(operations.size()) +
        ", matrix products: " + std::to_string(products.size()) + ")";
    return nullptr;
  }
  bool indices = false;
  for (const auto& operation : operations) {
    if (operation->type() == DescriptorType::kOperationPointwise)
      ReadPointwise(*operation, &indices, made.get());
    AddWritten(operation->Link(ResultOf(operation->type())), &made->written);
    AddWritten(operation->Link(AttributeName::kSdpaStatistics), &made->written);
  }
  return made;
}

uint64_t Attention::WorkspaceBytes() const {
  constexpr uint64_t kCounter = 256;  // by which blocks take their tiles
  if (backward) {
    // dK and dV before heads that share them are added up.
    const uint64_t shared = key_heads < heads;
    return kCounter + shared * 2 * batch * heads * keys * (width + value_width);
  }
  if (queries > 1)
    return kCounter;
  // One query: keys are shared out over blocks, which leave a row and two sums each.
  constexpr uint64_t kKeysPerBlock = 128;
  const uint64_t blocks = (keys + kKeysPerBlock - 1) / kKeysPerBlock;
  return blocks * batch * heads * (value_width + 2) * 4 + 128;
}

Error Attention::Launch(Gpu* gpu, void* stream, std::span<void* const> outputs,
                        void* workspace) const {
  return LaunchAttention(gpu, stream, *this, outputs, workspace);
}

}  // namespace vrank::gpu::dnn
