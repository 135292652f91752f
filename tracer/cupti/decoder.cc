// Which decoder, and the names of functions.

#include "tracer/cupti/decoder.h"

#include "tracer/cupti/call_filter.h"

namespace vrank::tracer {

uint32_t FunctionNames::Of(CUpti_CallbackDomain domain, uint32_t cbid) {
  const auto [found, fresh] =
      numbers_.try_emplace(uint64_t{static_cast<uint32_t>(domain)} << 32 | cbid, 0);
  if (!fresh)
    return found->second;
  const char* name = nullptr;
  if (cupti_->cuptiGetCallbackName(domain, cbid, &name) == CUPTI_SUCCESS &&
      name != nullptr)
    found->second = writer_->Name(WithoutVersion(name));
  return found->second;
}

Decoder* MakeDecoder(uint32_t cupti_version, const CuptiLibrary* cupti,
                     TraceWriter* writer) {
  switch (CudaMajor(cupti_version)) {
    case 13:
      return MakeDecoder13(cupti, writer);
    default:
      return nullptr;
  }
}

}  // namespace vrank::tracer
