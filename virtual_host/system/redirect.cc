#include "virtual_host/system/redirect.h"

namespace vrank::host {
namespace {

// The part up to ".so", and our SONAME.
struct StandIn {
  std::string_view stem;
  std::string_view soname;
};
constexpr StandIn kStandIns[] = {
    {"libcudart.so", "libcudart.so.13"},
    {"libcuda.so", "libcuda.so.1"},
    {"libcublas.so", "libcublas.so.13"},
    {"libcublasLt.so", "libcublasLt.so.13"},
    {"libnvidia-ml.so", "libnvidia-ml.so.1"},
    {"libnccl.so", "libnccl.so.2"},
    {"libcupti.so", "libcupti.so.13"},
    {"libcudnn.so", "libcudnn.so.9"},
    {"libcufft.so", "libcufft.so.12"},
    {"libcufile.so", "libcufile.so.0"},
    {"libcurand.so", "libcurand.so.10"},
    {"libcusolver.so", "libcusolver.so.12"},
    {"libcusparse.so", "libcusparse.so.12"},
    {"libcusparseLt.so", "libcusparseLt.so.0"},
    {"libnvshmem_host.so", "libnvshmem_host.so.3"},
};

}  // namespace

std::string_view StandInFor(std::string_view file) {
  const size_t slash = file.rfind('/');
  const std::string_view name =
      slash == std::string_view::npos ? file : file.substr(slash + 1);
  for (const StandIn& stand_in : kStandIns) {
    if (!name.starts_with(stand_in.stem))
      continue;
    // "", ".13" or ".13.0.96": the SONAME, cut short or made longer at a dot.
    const std::string_view version = name.substr(stand_in.stem.size());
    const std::string_view ours = stand_in.soname.substr(stand_in.stem.size());
    const bool same = version.starts_with(ours) &&
                      (version.size() == ours.size() || version[ours.size()] == '.');
    return version.empty() || same ? stand_in.soname : std::string_view();
  }
  return {};
}

}  // namespace vrank::host
