// FuzzImport under libFuzzer, which finds inputs by the branches that they reach.

#include "tests/graph/import/import_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  vrank::graph::FuzzImport(data, size);
  return 0;
}
