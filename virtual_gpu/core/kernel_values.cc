#include "virtual_gpu/core/kernel_values.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "virtual_gpu/core/deferred_launch.h"
#include "virtual_gpu/core/stream_lanes.h"

namespace vrank::gpu {

void CopyOnDevice(const CopyPart& part, Contents& contents) {
  if (part.bytes != 0 && contents.IsValid(part.to, part.bytes) &&
      contents.IsValid(part.from, part.bytes))
    contents.CopyWithin(part.to, part.from, part.bytes);
}

const char* AddInput(Contents& contents, const KernelInput& input, PendingValue* value,
                     InputPart part) {
  std::vector<unsigned char>& bytes = value->inputs.emplace_back(input.bytes);
  std::vector<unsigned char>& known = value->known.emplace_back(input.bytes);
  const char* made_up_by = "";
  for (const ContentRun& run : contents.Runs(input.address, input.bytes)) {
    const Origin& origin = run.origin;
    const uint64_t length = run.end - run.begin;
    if (origin.made_up() && *made_up_by == '\0')
      made_up_by = origin.writer;
    if (CopyKnown(run, input.address, bytes.data() + run.begin)) {
      std::fill_n(known.begin() + static_cast<ptrdiff_t>(run.begin), length, 0xff);
      continue;
    }
    if (part == InputPart::kAwaited && !IsAwaited(origin))
      continue;
    if (origin.kind == Origin::Kind::kResult) {
      value->tracked = value->tracked && origin.arrival != 0;
      if (origin.arrival != 0)
        Merge(&value->arrivals, {origin.arrival});
    } else if (origin.kind == Origin::Kind::kPending) {
      value->tracked = value->tracked && origin.pending->tracked;
      Merge(&value->arrivals, origin.pending->arrivals);
      value->depth = std::max(value->depth, origin.pending->depth + 1);
    } else {
      continue;
    }
    value->landings.push_back({origin.key, origin.offset, length,
                               bytes.data() + run.begin, origin.pending,
                               known.data() + run.begin});
  }
  return made_up_by;
}

Origin ValueOf(Contents& contents, std::span<const KernelInput> inputs, uint64_t out,
               uint64_t out_bytes, KernelFunction compute, const char* writer) {
  const Origin computed = Origin::Computed(writer);
  if (!contents.IsValid(out, out_bytes))
    return computed;
  for (const KernelInput& input : inputs)
    if (!contents.IsKnown(input.address, input.bytes))
      return computed;
  auto value = std::make_shared<PendingValue>();
  const char* made_up_by = "";
  for (const KernelInput& input : inputs) {
    const char* const here = AddInput(contents, input, value.get());
    if (*made_up_by == '\0' && *here != '\0')
      made_up_by = contents.NameMadeUp(writer, here);
  }
  if (!value->landings.empty()) {
    value->result_bytes = out_bytes;
    value->compute = [compute = std::move(compute)](const PendingValue::Inputs& in,
                                                    const PendingValue::Inputs& known,
                                                    std::span<unsigned char> result,
                                                    std::span<unsigned char> flags) {
      for (const std::vector<unsigned char>& each : known)
        if (std::find(each.begin(), each.end(), 0) != each.end())
          return;
      if (compute(in, result.data()))
        std::fill(flags.begin(), flags.end(), 0xff);
    };
    return Origin::Pending(std::move(value), 0, made_up_by);
  }
  std::vector<unsigned char> result(out_bytes);
  const bool done = compute(value->inputs, result.data()) &&
                    contents.StoreBytes(out, result.data(), out_bytes, made_up_by);
  return done ? Origin::Bytes(made_up_by) : computed;
}

}  // namespace vrank::gpu
