#include "emulator/launch/command_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::emulator {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#else
constexpr uint16_t kMachine = EM_AARCH64;
#endif

// Interpreters of interpreters; the kernel stops at about as many.
constexpr int kMaxScriptDepth = 4;

bool IsExecutableFile(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

absl::StatusOr<std::string> FindOnPath(const std::string& name) {
  if (name.empty())
    return absl::InvalidArgumentError(
        "command: it is empty; name a program after '--'");
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), F_OK) != 0) {
      return absl::NotFoundError(
          fmt::format("command '{}': {}; check the path", name, strerror(errno)));
    }
    if (!IsExecutableFile(name)) {
      return absl::FailedPreconditionError(
          fmt::format("command '{}': it is not an executable file; chmod +x, or name "
                      "its interpreter",
                      name));
    }
    return name;
  }
  const char* path = getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  for (;;) {
    const size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    std::string candidate =
        fmt::format("{}/{}", folder.empty() ? std::string_view(".") : folder, name);
    if (IsExecutableFile(candidate))
      return candidate;
    if (colon == std::string_view::npos)
      break;
    rest.remove_prefix(colon + 1);
  }
  return absl::NotFoundError(fmt::format(
      "command '{}': no such program on PATH; give its path (./{})", name, name));
}

// A file in memory, for as long as the object lives.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return;
    struct stat status;
    if (fstat(fd, &status) == 0 && status.st_size > 0) {
      void* address = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ,
                           MAP_PRIVATE, fd, 0);
      if (address != MAP_FAILED)
        bytes_ = {static_cast<const char*>(address),
                  static_cast<size_t>(status.st_size)};
    }
    close(fd);
  }
  ~MappedFile() {
    if (!bytes_.empty())
      munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

// Element `index` of an array in the file; nullptr where the file is too short.
template <typename T>
const T* At(std::string_view file, uint64_t offset, uint64_t index = 0) {
  const uint64_t begin = offset + index * sizeof(T);
  if (offset > file.size() || begin > file.size() || file.size() - begin < sizeof(T))
    return nullptr;
  return reinterpret_cast<const T*>(file.data() + begin);
}

// A name in a string table.
std::string_view NameAt(std::string_view file, const Elf64_Shdr& strings,
                        uint64_t offset) {
  const uint64_t begin = strings.sh_offset + offset;
  if (begin >= file.size())
    return {};
  const std::string_view rest = file.substr(begin);
  return rest.substr(0, rest.find('\0'));
}

bool HasInterpreter(std::string_view file, const Elf64_Ehdr& header) {
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto* program = At<Elf64_Phdr>(file, header.e_phoff, i);
    if (program != nullptr && program->p_type == PT_INTERP)
      return true;
  }
  return false;
}

// Device code is registered through __cudaRegisterFatBinary: a program that has device
// code and does not import that name has the runtime inside.
bool HasCudaRuntimeInside(std::string_view file, const Elf64_Ehdr& header) {
  const auto* names = At<Elf64_Shdr>(file, header.e_shoff, header.e_shstrndx);
  if (names == nullptr)
    return false;
  bool device_code = false;
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto* section = At<Elf64_Shdr>(file, header.e_shoff, i);
    if (section == nullptr)
      return false;
    if (NameAt(file, *names, section->sh_name) == ".nv_fatbin")
      device_code = true;
    if (section->sh_type != SHT_DYNSYM)
      continue;
    const auto* strings = At<Elf64_Shdr>(file, header.e_shoff, section->sh_link);
    if (strings == nullptr)
      return false;
    for (uint64_t s = 0; s < section->sh_size / sizeof(Elf64_Sym); ++s) {
      const auto* symbol = At<Elf64_Sym>(file, section->sh_offset, s);
      if (symbol != nullptr && symbol->st_shndx == SHN_UNDEF &&
          NameAt(file, *strings, symbol->st_name) == "__cudaRegisterFatBinary")
        return false;
    }
  }
  return device_code;
}

absl::Status CheckElf(const std::string& path, std::string_view file) {
  const auto* header = At<Elf64_Ehdr>(file, 0);
  if (header == nullptr || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_machine != kMachine) {
    return absl::FailedPreconditionError(fmt::format(
        "command '{}': it is built for another processor than this machine's", path));
  }
  if (!HasInterpreter(file, *header)) {
    return absl::FailedPreconditionError(
        fmt::format("command '{}': it is a static binary, into which vrank's libraries "
                    "cannot be loaded; link it without -static",
                    path));
  }
  if (HasCudaRuntimeInside(file, *header)) {
    return absl::FailedPreconditionError(
        fmt::format("command '{}': the CUDA runtime is linked into it, out of reach of "
                    "the virtual GPU; link it with 'nvcc -cudart shared'",
                    path));
  }
  return absl::OkStatus();
}

// The interpreter of a script ("#!/bin/sh -e" gives "/bin/sh").
std::optional<std::string> InterpreterOf(std::string_view file) {
  if (!file.starts_with("#!"))
    return std::nullopt;
  std::string_view line = file.substr(2, file.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t\r")));
}

absl::Status CheckFile(const std::string& path, int depth) {
  const MappedFile file(path);
  if (file.bytes().starts_with(std::string_view(ELFMAG, SELFMAG)))
    return CheckElf(path, file.bytes());
  const std::optional<std::string> interpreter = InterpreterOf(file.bytes());
  if (interpreter.has_value() && depth < kMaxScriptDepth) {
    if (IsExecutableFile(*interpreter))
      return CheckFile(*interpreter, depth + 1);
    return absl::NotFoundError(fmt::format(
        "command '{}': its interpreter '{}' is not there; correct its first line", path,
        *interpreter));
  }
  return absl::FailedPreconditionError(fmt::format(
      "command '{}': it is neither a program nor a script with a '#!' line; "
      "name its interpreter",
      path));
}

}  // namespace

absl::StatusOr<std::string> ResolveCommand(const std::string& name) {
  ASSIGN_OR_RETURN(std::string path, FindOnPath(name));
  RETURN_IF_ERROR(CheckFile(path, 0));
  return path;
}

}  // namespace vrank::emulator
