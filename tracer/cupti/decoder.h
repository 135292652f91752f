// From CUPTI's activity records to records of the trace.
//
// CUPTI's structs change with CUDA's releases, and the library in the process emits the
// newest that it knows. So there is one decoder for each CUDA major, compiled against
// that major's structs and chosen by cuptiGetVersion; decoder_13.cc holds CUDA 13's. A
// decoder for another major is another file and a line in MakeDecoder.
//
// Thread rule: one thread at a time (the session's lock).

#ifndef VRANK_TRACER_CUPTI_DECODER_H_
#define VRANK_TRACER_CUPTI_DECODER_H_

#include <cstdint>
#include <unordered_map>

#include "tracer/cupti/cupti_library.h"
#include "tracer/record/trace_writer.h"

namespace vrank::tracer {

// Names of functions by (domain, cbid), numbered at their first use.
class FunctionNames {
 public:
  FunctionNames(const CuptiLibrary* cupti, TraceWriter* writer)
      : cupti_(cupti), writer_(writer) {}
  uint32_t Of(CUpti_CallbackDomain domain, uint32_t cbid);

 private:
  const CuptiLibrary* const cupti_;
  TraceWriter* const writer_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Appends what `record` says. False for kinds that it does not know.
  virtual bool Decode(const CUpti_Activity& record) = 0;
};

// The decoder for a version as cuptiGetVersion says it, or nullptr. `cupti` and
// `writer` live as long as the decoder.
Decoder* MakeDecoder(uint32_t cupti_version, const CuptiLibrary* cupti,
                     TraceWriter* writer);

// The CUDA major behind a version of CUPTI: 130001 -> 13. Before CUDA 12.8 CUPTI
// counted by itself (26 for CUDA 12.6): 0.
constexpr uint32_t CudaMajor(uint32_t cupti_version) {
  return cupti_version / 10'000;
}

// decoder_13.cc
Decoder* MakeDecoder13(const CuptiLibrary* cupti, TraceWriter* writer);

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_CUPTI_DECODER_H_
