// libcudnn's graph API: descriptors go in, a plan comes out, and is executed.
//
// graph_reader.h states which graphs are modelled, and computation.h what a plan does.
// For other graphs there is no engine, and what helps is printed once.

#include <algorithm>
#include <atomic>
#include <new>

#include "base/guest/export.h"
#include "virtual_gpu/api/dnn/computation.h"
#include "virtual_gpu/api/dnn/graph_reader.h"
#include "virtual_gpu/api/dnn/handle.h"
#include "virtual_gpu/api/dnn/refused_parts.h"
#include "virtual_gpu/api/gpu_access.h"

#define CUDNN_ENTRY extern "C" VRANK_EXPORT int

namespace {

using vrank::gpu::dnn::AttributeName;
using vrank::gpu::dnn::AttributeType;
using vrank::gpu::dnn::BytesOf;
using vrank::gpu::dnn::Computation;
using vrank::gpu::dnn::Computations;
using vrank::gpu::dnn::Descriptor;
using vrank::gpu::dnn::DescriptorHandle;
using vrank::gpu::dnn::DescriptorType;
using vrank::gpu::dnn::Fail;
using vrank::gpu::dnn::kBadParam;
using vrank::gpu::dnn::kBadParamAttributeType;
using vrank::gpu::dnn::kBadParamDescriptorType;
using vrank::gpu::dnn::kBadParamNotFinalized;
using vrank::gpu::dnn::kBadParamNullPointer;
using vrank::gpu::dnn::kBadParamSizeInsufficient;
using vrank::gpu::dnn::kHostAllocationFailed;
using vrank::gpu::dnn::kNotSupportedGraphPattern;
using vrank::gpu::dnn::kSuccess;
using vrank::gpu::dnn::NumericalNote;

// The engines for a graph.
Computations EnginesOf(const Descriptor& graph) {
  std::string why;
  Computations engines = vrank::gpu::dnn::ReadGraph(
      graph, vrank::gpu::FindGpu()->channel()->settings().gpu, &why);
  if (engines.empty()) {
    static std::atomic<bool> said;
    vrank::gpu::dnn::RefuseGraph(why.c_str(), &said);
  }
  return engines;
}

Computations EnginesOf(const Descriptor* graph) {
  return graph == nullptr ? Computations() : EnginesOf(*graph);
}

// What an engine that a program made by its index computes; nullptr where its graph has
// none of that index.
std::shared_ptr<const Computation> MeaningOfEngine(const Descriptor& engine) {
  if (engine.meaning() != nullptr)
    return engine.meaning();
  const Computations engines = EnginesOf(engine.Link(AttributeName::kEngineGraph));
  const int64_t index = engine.Number<int64_t>(AttributeName::kEngineIndex).value_or(0);
  return index < 0 || static_cast<size_t>(index) >= engines.size()
             ? nullptr
             : engines[static_cast<size_t>(index)];
}

std::shared_ptr<const Computation> MeaningOfPlan(const Descriptor& plan) {
  const Descriptor* const config = plan.Link(AttributeName::kPlanEngineConfig);
  const Descriptor* const engine =
      config == nullptr ? nullptr : config->Link(AttributeName::kEngineConfigEngine);
  return engine == nullptr ? nullptr : engine->meaning();
}

// The one engine for a graph goes where the caller wants it.
int GiveEngine(const Descriptor& config, int64_t wanted, int64_t* given, void* array) {
  const auto& engines = config.Links(AttributeName::kEngineConfigEngine);
  if (given != nullptr)
    *given = static_cast<int64_t>(engines.size());
  if (engines.empty() || wanted < 1 || array == nullptr)
    return kSuccess;
  DescriptorHandle* const to = DescriptorHandle::Find(static_cast<void**>(array)[0]);
  if (to == nullptr || to->descriptor->type() != DescriptorType::kEngine)
    return Fail(kBadParamDescriptorType, "an engine's place is no engine descriptor");
  to->descriptor = engines.front();
  return kSuccess;
}

// One configuration per engine, in the order of the engines.
int GiveHeuristics(const Descriptor& heuristics, int64_t wanted, int64_t* given,
                   void* array) {
  const auto& graphs = heuristics.Links(AttributeName::kHeuristicsGraph);
  const Computations engines =
      graphs.empty() ? Computations() : EnginesOf(*graphs.front());
  const int64_t count = array == nullptr || wanted < 1
                            ? static_cast<int64_t>(engines.size())
                            : std::min(wanted, static_cast<int64_t>(engines.size()));
  if (given != nullptr)
    *given = count;
  if (wanted < 1 || array == nullptr)
    return kSuccess;
  for (int64_t i = 0; i < count; ++i) {
    DescriptorHandle* const to =
        DescriptorHandle::Find(static_cast<void* const*>(array)[i]);
    if (to == nullptr || to->descriptor->type() != DescriptorType::kEngineConfig)
      return Fail(kBadParamDescriptorType,
                  "a result's place is no engine configuration");
    auto engine = std::make_shared<Descriptor>(DescriptorType::kEngine);
    engine->SetLink(AttributeName::kEngineGraph, graphs.front());
    engine->SetInt64(AttributeName::kEngineIndex, i);
    engine->SetMeaning(engines[static_cast<size_t>(i)]);
    engine->Finalize();
    to->descriptor->SetLink(AttributeName::kEngineConfigEngine, std::move(engine));
    to->descriptor->Finalize();
  }
  return kSuccess;
}

int GiveNotes(const Descriptor& engine, int64_t wanted, int64_t* given, void* array) {
  const std::vector<NumericalNote> notes = engine.meaning() == nullptr
                                               ? std::vector<NumericalNote>()
                                               : engine.meaning()->NumericalNotes();
  if (given != nullptr)
    *given = static_cast<int64_t>(notes.size());
  if (array != nullptr && wanted > 0)
    std::copy_n(notes.begin(), std::min(notes.size(), static_cast<size_t>(wanted)),
                static_cast<NumericalNote*>(array));
  return kSuccess;
}

template <typename T>
int GiveNumber(T number, int64_t wanted, int64_t* given, void* array) {
  if (given != nullptr)
    *given = 1;
  if (wanted > 0 && array != nullptr)
    *static_cast<T*>(array) = number;
  return kSuccess;
}

// What was set; none of it: an empty list.
int GiveStored(const Descriptor& descriptor, AttributeName name, AttributeType type,
               int64_t wanted, int64_t* given, void* array) {
  const Descriptor::Attribute* const attribute = descriptor.Find(name);
  if (given != nullptr)
    *given = attribute == nullptr ? 0 : attribute->count;
  if (attribute == nullptr || array == nullptr || wanted < 1)
    return kSuccess;
  if (attribute->type != type)
    return Fail(kBadParamAttributeType, "the attribute has another type");
  if (type == AttributeType::kDescriptor) {
    const int64_t count = std::min(wanted, attribute->count);
    for (int64_t i = 0; i < count; ++i) {
      DescriptorHandle* const to =
          DescriptorHandle::Find(static_cast<void**>(array)[i]);
      if (to == nullptr)
        return Fail(kBadParamDescriptorType, "a link's place is no descriptor");
      to->descriptor = attribute->links[static_cast<size_t>(i)];
    }
    return kSuccess;
  }
  std::memcpy(
      array, attribute->bytes.data(),
      std::min(attribute->bytes.size(), static_cast<size_t>(wanted) * BytesOf(type)));
  return kSuccess;
}

}  // namespace

CUDNN_ENTRY cudnnBackendCreateDescriptor(DescriptorType type, void** descriptor) {
  if (descriptor == nullptr)
    return Fail(kBadParamNullPointer, "cudnnBackendCreateDescriptor: no descriptor");
  if (type < DescriptorType{} || type > DescriptorType::kLast)
    return Fail(kBadParam, "cudnnBackendCreateDescriptor: no such type");
  auto* const made = new (std::nothrow) DescriptorHandle;
  if (made == nullptr)
    return Fail(kHostAllocationFailed, "cudnnBackendCreateDescriptor: no memory");
  made->descriptor = std::make_shared<Descriptor>(type);
  *descriptor = made;
  return kSuccess;
}

CUDNN_ENTRY cudnnBackendDestroyDescriptor(void* descriptor) {
  if (descriptor == nullptr)
    return kSuccess;
  DescriptorHandle* const handle = DescriptorHandle::Find(descriptor);
  if (handle == nullptr)
    return Fail(kBadParam, "cudnnBackendDestroyDescriptor: no descriptor");
  handle->magic = 0;
  delete handle;
  return kSuccess;
}

CUDNN_ENTRY cudnnBackendFinalize(void* descriptor) {
  DescriptorHandle* const handle = DescriptorHandle::Find(descriptor);
  if (handle == nullptr)
    return Fail(kBadParam, "cudnnBackendFinalize: no descriptor");
  Descriptor& made = *handle->descriptor;
  if (made.type() == DescriptorType::kOperationGraph &&
      made.Links(AttributeName::kGraphOperations).empty())
    return Fail(kBadParam, "cudnnBackendFinalize: a graph without operations");
  if (made.type() == DescriptorType::kEngine)
    made.SetMeaning(MeaningOfEngine(made));
  if (made.type() == DescriptorType::kExecutionPlan) {
    made.SetMeaning(MeaningOfPlan(made));
    if (made.meaning() == nullptr)
      return Fail(kNotSupportedGraphPattern,
                  "cudnnBackendFinalize: a plan for no graph that is modelled");
  }
  made.Finalize();
  return kSuccess;
}

CUDNN_ENTRY cudnnBackendSetAttribute(void* descriptor, AttributeName name,
                                     AttributeType type, int64_t count,
                                     const void* array) {
  DescriptorHandle* const handle = DescriptorHandle::Find(descriptor);
  if (handle == nullptr)
    return Fail(kBadParam, "cudnnBackendSetAttribute: no descriptor");
  if (handle->descriptor->finalized())
    return Fail(kBadParam, "cudnnBackendSetAttribute: the descriptor is finalized");
  if (BytesOf(type) == 0)
    return Fail(kBadParamAttributeType, "cudnnBackendSetAttribute: no such type");
  if (count < 0 || (count > 0 && array == nullptr))
    return Fail(kBadParamNullPointer, "cudnnBackendSetAttribute: no elements");
  Descriptor::Attribute attribute;
  attribute.type = type;
  attribute.count = count;
  if (type == AttributeType::kDescriptor) {
    for (int64_t i = 0; i < count; ++i) {
      const DescriptorHandle* const link =
          DescriptorHandle::Find(static_cast<void* const*>(array)[i]);
      if (link == nullptr)
        return Fail(kBadParam, "cudnnBackendSetAttribute: an element is no descriptor");
      if (!link->descriptor->finalized())
        return Fail(kBadParamNotFinalized,
                    "cudnnBackendSetAttribute: an element is not finalized");
      attribute.links.push_back(link->descriptor);
    }
  } else {
    const auto* const bytes = static_cast<const std::byte*>(array);
    attribute.bytes.assign(bytes, bytes + static_cast<size_t>(count) * BytesOf(type));
  }
  handle->descriptor->Set(name, std::move(attribute));
  return kSuccess;
}

CUDNN_ENTRY cudnnBackendGetAttribute(void* descriptor, AttributeName name,
                                     AttributeType type, int64_t wanted, int64_t* given,
                                     void* array) {
  const DescriptorHandle* const handle = DescriptorHandle::Find(descriptor);
  if (handle == nullptr)
    return Fail(kBadParam, "cudnnBackendGetAttribute: no descriptor");
  const Descriptor& from = *handle->descriptor;
  switch (name) {
    case AttributeName::kHeuristicsResults:
      return GiveHeuristics(from, wanted, given, array);
    case AttributeName::kEngineConfigEngine:
      return GiveEngine(from, wanted, given, array);
    case AttributeName::kEngineNumericalNotes:
      return GiveNotes(from, wanted, given, array);
    case AttributeName::kEngineConfigWorkspace:
      return GiveNumber<int64_t>(0, wanted, given, array);
    case AttributeName::kEngineConfigSharedMemory:
      return GiveNumber<int32_t>(0, wanted, given, array);
    case AttributeName::kGraphEngineCount:
      return GiveNumber(static_cast<int64_t>(EnginesOf(from).size()), wanted, given,
                        array);
    case AttributeName::kPlanWorkspace: {
      const std::shared_ptr<const Computation>& meaning = from.meaning();
      if (meaning == nullptr)
        return Fail(kBadParamNotFinalized, "cudnnBackendGetAttribute: no plan yet");
      return GiveNumber(static_cast<int64_t>(meaning->WorkspaceBytes()), wanted, given,
                        array);
    }
    default:
      return GiveStored(from, name, type, wanted, given, array);
  }
}

CUDNN_ENTRY cudnnBackendExecute(cudnnContext* handle, void* plan, void* pack) {
  const DescriptorHandle* const what = DescriptorHandle::Find(plan);
  const DescriptorHandle* const with = DescriptorHandle::Find(pack);
  if (!vrank::gpu::dnn::IsHandle(handle) || what == nullptr || with == nullptr)
    return Fail(kBadParam, "cudnnBackendExecute: no handle, plan or variant pack");
  const std::shared_ptr<const Computation>& meaning = what->descriptor->meaning();
  if (meaning == nullptr || !with->descriptor->finalized())
    return Fail(kBadParamNotFinalized, "cudnnBackendExecute: not finalized");
  const auto ids = with->descriptor->Numbers<int64_t>(AttributeName::kPackUniqueIds);
  const auto pointers = with->descriptor->Numbers<void*>(AttributeName::kPackPointers);
  void* const workspace =
      with->descriptor->Number<void*>(AttributeName::kPackWorkspace).value_or(nullptr);
  if (ids.size() != pointers.size() ||
      (workspace == nullptr && meaning->WorkspaceBytes() > 0))
    return Fail(kBadParamSizeInsufficient,
                "cudnnBackendExecute: an address per unique id, and a workspace");
  std::vector<void*> outputs;
  for (int64_t id : meaning->written) {
    const auto found = std::find(ids.begin(), ids.end(), id);
    if (found == ids.end())
      return Fail(kBadParam, "cudnnBackendExecute: an output without an address");
    outputs.push_back(pointers[static_cast<size_t>(found - ids.begin())]);
  }
  const vrank::gpu::Error error =
      meaning->Launch(vrank::gpu::FindGpu(), handle->stream, outputs, workspace);
  return error == vrank::gpu::Error::kSuccess
             ? kSuccess
             : Fail(vrank::gpu::dnn::kExecutionFailed,
                    "cudnnBackendExecute: a launch failed");
}
