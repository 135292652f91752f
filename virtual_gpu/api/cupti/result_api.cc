// libcupti, chapters "Version" and "Result codes".

#include "base/guest/export.h"
#include "virtual_gpu/api/cupti/profiler.h"

using vrank::cupti::Leave;

namespace {

struct ResultText {
  CUptiResult result;
  const char* name;
  const char* message;
};

constexpr ResultText kResults[] = {
#define VRANK_CUPTI_RESULT(name, message) {name, #name, message},
#include "virtual_gpu/api/cupti/results.def"
#undef VRANK_CUPTI_RESULT
};

CUptiResult Text(CUptiResult result, const char* ResultText::*field,
                 const char** text) {
  if (text == nullptr)
    return Leave(CUPTI_ERROR_INVALID_PARAMETER);
  for (const ResultText& row : kResults) {
    if (row.result == result) {
      *text = row.*field;
      return CUPTI_SUCCESS;
    }
  }
  return Leave(CUPTI_ERROR_INVALID_PARAMETER);
}

}  // namespace

VRANK_CUPTI cuptiGetVersion(uint32_t* version) {
  if (version == nullptr)
    return Leave(CUPTI_ERROR_INVALID_PARAMETER);
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

VRANK_CUPTI cuptiGetResultString(CUptiResult result, const char** text) {
  return Text(result, &ResultText::name, text);
}
VRANK_CUPTI cuptiGetErrorMessage(CUptiResult result, const char** text) {
  return Text(result, &ResultText::message, text);
}

VRANK_CUPTI cuptiGetLastError() {
  return vrank::cupti::TakeLastError();
}
