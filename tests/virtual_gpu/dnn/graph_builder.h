// Graphs of cuDNN's backend API, made as its frontend makes them, and what they give.
//
// Thread rule: one test at a time.

#ifndef VRANK_TESTS_VIRTUAL_GPU_DNN_GRAPH_BUILDER_H_
#define VRANK_TESTS_VIRTUAL_GPU_DNN_GRAPH_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "virtual_gpu/api/dnn/cudnn_abi.h"

struct cudnnContext;
extern "C" {
int cudnnCreate(cudnnContext** handle);
int cudnnDestroy(cudnnContext* handle);
int cudnnSetStream(cudnnContext* handle, void* stream);
int cudnnGetStream(cudnnContext* handle, void** stream);
size_t cudnnGetVersion();
int cudnnGetProperty(int type, int* value);
const char* cudnnGetErrorString(int status);
void cudnnGetLastErrorString(char* message, size_t bytes);
int cudnnCreateCTCLossDescriptor(void** descriptor);
int cudnnBackendCreateDescriptor(vrank::gpu::dnn::DescriptorType type,
                                 void** descriptor);
int cudnnBackendDestroyDescriptor(void* descriptor);
int cudnnBackendFinalize(void* descriptor);
int cudnnBackendSetAttribute(void* descriptor, vrank::gpu::dnn::AttributeName name,
                             vrank::gpu::dnn::AttributeType type, int64_t count,
                             const void* array);
int cudnnBackendGetAttribute(void* descriptor, vrank::gpu::dnn::AttributeName name,
                             vrank::gpu::dnn::AttributeType type, int64_t wanted,
                             int64_t* given, void* array);
int cudnnBackendExecute(cudnnContext* handle, void* plan, void* pack);
}

namespace vrank::gpu::dnn {

using Name = AttributeName;

class GraphBuilder {
 public:
  ~GraphBuilder() {
    for (void* descriptor : made_)
      EXPECT_EQ(cudnnBackendDestroyDescriptor(descriptor), kSuccess);
  }

  void* New(DescriptorType type) {
    void* descriptor = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(type, &descriptor), kSuccess);
    made_.push_back(descriptor);
    return descriptor;
  }
  template <typename T>
  static int Set(void* descriptor, Name name, AttributeType type,
                 const std::vector<T>& values) {
    return cudnnBackendSetAttribute(descriptor, name, type,
                                    static_cast<int64_t>(values.size()), values.data());
  }
  static void Link(void* from, Name name, std::vector<void*> to) {
    EXPECT_EQ(Set(from, name, AttributeType::kDescriptor, to), kSuccess);
  }
  static void Finalize(void* descriptor) {
    EXPECT_EQ(cudnnBackendFinalize(descriptor), kSuccess);
  }

  // In memory, of bfloat16.
  void* Tensor(int64_t id, std::vector<int64_t> dimensions) {
    return Tensor(id, std::move(dimensions), DataType::kBfloat16, false);
  }
  // In memory, with strides.
  void* Tensor(int64_t id, std::vector<int64_t> dimensions,
               std::vector<int64_t> strides, DataType type) {
    void* const tensor = NewTensor(id, std::move(dimensions), type, false);
    Set(tensor, Name::kTensorStrides, AttributeType::kInt64, strides);
    Finalize(tensor);
    return tensor;
  }
  // Between operations.
  void* Virtual(int64_t id, std::vector<int64_t> dimensions) {
    return Tensor(id, std::move(dimensions), DataType{}, true);
  }
  void* Tensor(int64_t id, std::vector<int64_t> dimensions, DataType type,
               bool is_virtual) {
    void* const tensor = NewTensor(id, std::move(dimensions), type, is_virtual);
    Finalize(tensor);
    return tensor;
  }
  void* NewTensor(int64_t id, std::vector<int64_t> dimensions, DataType type,
                  bool is_virtual) {
    void* const tensor = New(DescriptorType::kTensor);
    Set<int>(tensor, Name::kTensorDataType, AttributeType{1}, {static_cast<int>(type)});
    Set(tensor, Name::kTensorDimensions, AttributeType::kInt64, dimensions);
    Set<int64_t>(tensor, Name::kTensorUniqueId, AttributeType::kInt64, {id});
    Set<uint8_t>(tensor, Name::kTensorIsVirtual, AttributeType::kBoolean,
                 {static_cast<uint8_t>(is_virtual)});
    return tensor;
  }

  void Product(void* a, void* b, void* c) {
    Add(DescriptorType::kOperationMatmul,
        {{Name::kMatmulA, a}, {Name::kMatmulB, b}, {Name::kMatmulC, c}});
  }
  void Pointwise(int mode, void* x, void* b, void* y) {
    void* const how = New(DescriptorType::kPointwise);
    Set<int>(how, Name::kPointwiseMode, AttributeType{14}, {mode});
    Finalize(how);
    Add(DescriptorType::kOperationPointwise,
        {{Name::kOperationPointwiseDescriptor, how},
         {Name::kOperationPointwiseX, x},
         {Name::kOperationPointwiseB, b},
         {Name::kOperationPointwiseY, y}});
  }
  void Add(DescriptorType type, std::initializer_list<std::pair<Name, void*>> links) {
    void* const operation = New(type);
    for (const auto& [name, to] : links)
      if (to != nullptr)
        Link(operation, name, {to});
    Finalize(operation);
    operations_.push_back(operation);
  }

  // A graph of the operations so far.
  void* Graph() {
    void* const graph = New(DescriptorType::kOperationGraph);
    Link(graph, Name::kGraphOperations, operations_);
    Finalize(graph);
    return graph;
  }
  // Configurations of at most so many engines, the best first.
  std::vector<void*> Configurations(int64_t most = 8) {
    void* const heuristics = New(DescriptorType::kEngineHeuristics);
    Link(heuristics, Name::kHeuristicsGraph, {Graph()});
    Finalize(heuristics);
    std::vector<void*> configs;
    for (int64_t i = 0; i < most; ++i)
      configs.push_back(New(DescriptorType::kEngineConfig));
    int64_t given = -1;
    EXPECT_EQ(cudnnBackendGetAttribute(heuristics, Name::kHeuristicsResults,
                                       AttributeType::kDescriptor, most, &given,
                                       configs.data()),
              kSuccess);
    configs.resize(static_cast<size_t>(given));
    return configs;
  }
  void* Plan(void* config) {
    void* const plan = New(DescriptorType::kExecutionPlan);
    Link(plan, Name::kPlanEngineConfig, {config});
    Finalize(plan);
    return plan;
  }
  // The plan of the first engine; nullptr where there is none.
  void* Plan() {
    const std::vector<void*> configs = Configurations(1);
    return configs.empty() ? nullptr : Plan(configs.front());
  }
  static int64_t Workspace(void* plan) {
    int64_t bytes = -1;
    EXPECT_EQ(cudnnBackendGetAttribute(plan, Name::kPlanWorkspace,
                                       AttributeType::kInt64, 1, nullptr, &bytes),
              kSuccess);
    return bytes;
  }
  void* Pack(std::vector<int64_t> ids, std::vector<void*> addresses, void* workspace) {
    void* const pack = New(DescriptorType::kVariantPack);
    Set(pack, Name::kPackUniqueIds, AttributeType::kInt64, ids);
    Set(pack, Name::kPackPointers, AttributeType::kVoidPointer, addresses);
    Set<void*>(pack, Name::kPackWorkspace, AttributeType::kVoidPointer, {workspace});
    Finalize(pack);
    return pack;
  }

 private:
  std::vector<void*> made_, operations_;
};

}  // namespace vrank::gpu::dnn

#endif  // VRANK_TESTS_VIRTUAL_GPU_DNN_GRAPH_BUILDER_H_
