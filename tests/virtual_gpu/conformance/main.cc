// Runs every rule and prints one line each. Exit status: 0 all hold, 1 some do not, 77
// there is no GPU to ask.

#include <cstdio>

#include "tests/virtual_gpu/conformance/rule.h"

namespace conformance {
namespace {

int failures = 0;

int Run(const char* chapter, std::span<const Rule> rules) {
  int failed = 0;
  for (const Rule& rule : rules) {
    failures = 0;
    rule.check();
    printf("%s %s: %s\n", failures == 0 ? "ok  " : "FAIL", chapter, rule.name);
    failed += failures != 0 ? 1 : 0;
  }
  return failed;
}

}  // namespace

void Fail(const char* file, int line, const char* what, const char* seen) {
  ++failures;
  printf("     %s:%d: %s: %s\n", file, line, what, seen);
}

}  // namespace conformance

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    printf("no GPU: nothing checked\n");
    return 77;
  }
  const int failed = conformance::Run("errors", conformance::ErrorRules()) +
                     conformance::Run("memory", conformance::MemoryRules()) +
                     conformance::Run("streams", conformance::StreamRules()) +
                     conformance::Run("events", conformance::EventRules()) +
                     conformance::Run("capture", conformance::CaptureRules()) +
                     conformance::Run("graphs", conformance::GraphRules());
  printf("%d rule%s broken\n", failed, failed == 1 ? "" : "s");
  return failed == 0 ? 0 : 1;
}
