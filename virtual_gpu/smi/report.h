// What nvidia-smi prints: the table, the list of GPUs, and queries as comma-separated
// values. Layout and words: nvidia-smi of driver 580, whose output scripts parse.
//
// A field that nvidia-smi has and a virtual GPU does not model reads "[N/A]", as for a
// GPU without that sensor.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_SMI_REPORT_H_
#define VRANK_VIRTUAL_GPU_SMI_REPORT_H_

#include <string>
#include <string_view>

#include "virtual_gpu/smi/machine.h"

namespace vrank::smi {

// `now`: the time stamp of the first line.
std::string Table(const Machine& machine, std::string_view now);

// "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)", a line each.
std::string List(const Machine& machine);

struct CsvFormat {
  bool header = true;
  bool units = true;
};

// False for a field that nvidia-smi does not have; `text` then is the error.
bool QueryGpus(const Machine& machine, std::string_view fields, CsvFormat format,
               std::string_view now, std::string* text);
bool QueryProcesses(const Machine& machine, std::string_view fields, CsvFormat format,
                    std::string* text);

}  // namespace vrank::smi

#endif  // VRANK_VIRTUAL_GPU_SMI_REPORT_H_
