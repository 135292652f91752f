// libcupti, chapter "Activity API": kinds, buffers, flushing, external ids.

#include "base/guest/export.h"
#include "virtual_gpu/api/cupti/kinds.h"
#include "virtual_gpu/api/cupti/profiler.h"
#include "virtual_gpu/api/cupti/records.h"

using vrank::cupti::BelongsToContext;
using vrank::cupti::Call;
using vrank::cupti::CheckKind;
using vrank::cupti::Leave;
using vrank::cupti::Profiler;
using vrank::cupti::RecordBytes;
using vrank::cupti::Selection;

namespace {

// KERNEL and CONCURRENT_KERNEL are two ways to record the same thing, of which one can
// be on.
bool Conflicts(const Selection& selected, CUpti_ActivityKind kind) {
  return (kind == CUPTI_ACTIVITY_KIND_KERNEL &&
          selected.Has(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) ||
         (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
          selected.Has(CUPTI_ACTIVITY_KIND_KERNEL));
}

CUptiResult Enable(Profiler& profiler, const char* function, CUpti_ActivityKind kind) {
  if (CUptiResult result = CheckKind(function, kind); result != CUPTI_SUCCESS)
    return result;
  if (Conflicts(profiler.Selected(), kind))
    return CUPTI_ERROR_NOT_COMPATIBLE;
  profiler.Select([kind](Selection* selection) { selection->Set(kind, true); });
  return CUPTI_SUCCESS;
}

// For one context, which must exist.
CUptiResult SetFor(Profiler& profiler, const char* function, CUcontext context,
                   CUpti_ActivityKind kind, bool on) {
  if (CUptiResult result = CheckKind(function, kind); result != CUPTI_SUCCESS)
    return result;
  const uint32_t id = profiler.ContextId(context);
  if (id == 0)
    return CUPTI_ERROR_INVALID_CONTEXT;
  if (!BelongsToContext(kind) || (on && Conflicts(profiler.Selected(), kind)))
    return CUPTI_ERROR_NOT_COMPATIBLE;
  profiler.Select([=](Selection* selection) { selection->SetFor(id, kind, on); });
  return CUPTI_SUCCESS;
}

// A forced flush also asks for records that are incomplete. Here a record exists once
// it is complete, so the flush waits for those of the work issued so far.
CUptiResult Flush(uint32_t flag) {
  return Call([flag](Profiler& profiler) {
    if (!profiler.buffers().has_callbacks())
      return CUPTI_ERROR_INVALID_OPERATION;
    const bool forced = (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0;
    return profiler.Flush(forced) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
  });
}

bool IsExternalKind(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID &&
         kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

}  // namespace

// --- Kinds ---------------------------------------------------------------------------

VRANK_CUPTI cuptiActivityEnable(CUpti_ActivityKind kind) {
  return Call([kind](Profiler& profiler) {
    return Enable(profiler, "cuptiActivityEnable", kind);
  });
}

VRANK_CUPTI cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  return Call([kind](Profiler& profiler) {
    const CUptiResult result = Enable(profiler, "cuptiActivityEnableAndDump", kind);
    if (result != CUPTI_SUCCESS || !profiler.buffers().has_callbacks())
      return result;
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE)
      profiler.DumpDevices();
    else if (kind == CUPTI_ACTIVITY_KIND_CONTEXT)
      profiler.DumpContexts();
    else if (kind == CUPTI_ACTIVITY_KIND_STREAM)
      profiler.DumpStreams();
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiActivityDisable(CUpti_ActivityKind kind) {
  return Call([kind](Profiler& profiler) {
    const CUptiResult result = CheckKind("cuptiActivityDisable", kind);
    if (result == CUPTI_SUCCESS)
      profiler.Select([kind](Selection* selection) { selection->Set(kind, false); });
    return result;
  });
}

VRANK_CUPTI cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
  return Call([=](Profiler& profiler) {
    return SetFor(profiler, "cuptiActivityEnableContext", context, kind, true);
  });
}

VRANK_CUPTI cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
  return Call([=](Profiler& profiler) {
    return SetFor(profiler, "cuptiActivityDisableContext", context, kind, false);
  });
}

// --- Buffers -------------------------------------------------------------------------

VRANK_CUPTI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                               CUpti_BuffersCallbackCompleteFunc complete) {
  return Call([=](Profiler& profiler) {
    if (request == nullptr || complete == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    profiler.buffers().SetCallbacks(request, complete);
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiActivityFlushAll(uint32_t flag) {
  return Flush(flag);
}

// "CONTEXT and STREAMID will be ignored"
VRANK_CUPTI cuptiActivityFlush(CUcontext, uint32_t, uint32_t flag) {
  return Flush(flag);
}

// "Periodic flush can return only those activity buffers which are full", and ours are
// given back as soon as they are full: every period is kept.
VRANK_CUPTI cuptiActivityFlushPeriod(uint32_t) {
  return Call([](Profiler&) { return CUPTI_SUCCESS; });
}

VRANK_CUPTI cuptiActivityGetNextRecord(uint8_t* buffer, size_t bytes,
                                       CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr)
    return Leave(CUPTI_ERROR_INVALID_PARAMETER);
  auto padded = [](size_t size) {
    constexpr size_t kAlignment = vrank::cupti::kRecordAlignment;
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  };
  uint8_t* next = buffer;
  if (*record != nullptr)
    next = reinterpret_cast<uint8_t*>(*record) + padded(RecordBytes((*record)->kind));
  // Not an error of the caller's: no last error.
  if (next < buffer || next >= buffer + bytes)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* found = reinterpret_cast<CUpti_Activity*>(next);
  const auto left = static_cast<size_t>(buffer + bytes - next);
  if (left < sizeof found->kind || RecordBytes(found->kind) == 0 ||
      padded(RecordBytes(found->kind)) > left)
    return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}

// Since CUDA 6.0 all buffers are global, and so is the count.
VRANK_CUPTI cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  return Call([=](Profiler& profiler) {
    if (dropped == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    *dropped = profiler.buffers().TakeDropped();
    return CUPTI_SUCCESS;
  });
}

// --- External correlation ------------------------------------------------------------

VRANK_CUPTI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   uint64_t id) {
  return Call([=](Profiler& profiler) {
    if (!IsExternalKind(kind))
      return CUPTI_ERROR_INVALID_PARAMETER;
    profiler.activity().PushExternalId(kind, id);
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t* last_id) {
  return Call([=](Profiler& profiler) {
    if (!IsExternalKind(kind))
      return CUPTI_ERROR_INVALID_PARAMETER;
    uint64_t id = 0;
    if (!profiler.activity().PopExternalId(kind, &id))
      return CUPTI_ERROR_QUEUE_EMPTY;
    if (last_id != nullptr)
      *last_id = id;
    return CUPTI_SUCCESS;
  });
}
