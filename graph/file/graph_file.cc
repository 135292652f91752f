#include "graph/file/graph_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/format_version.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "base/whole_file.h"
#include "graph/file/graph_meta.h"
#include "graph/file/op_check.h"

namespace vrank::graph {
namespace {

constexpr char kMagic[8] = {'V', 'R', 'G', 'R', 'A', 'P', 'H', '\n'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kAlignment = 64;
constexpr int kCompressionLevel = 3;  // zstd's default
// Metadata of a job of 100,000 ranks stays far below; more is a broken size.
constexpr uint64_t kMaxMetaBytes = uint64_t{1} << 30;

// Little-endian, as all platforms with CUDA are.
struct GraphHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_crc;  // of the header with this field 0
  uint64_t file_bytes;
  uint64_t meta_offset;
  uint64_t meta_bytes;      // compressed
  uint64_t meta_raw_bytes;  // as protobuf
  uint32_t meta_crc;        // of the compressed bytes
  uint32_t reserved[3];
};
static_assert(sizeof(GraphHeader) == 64 && sizeof(Op) == 32);

absl::Status Broken(const std::string& subject, const std::string& what) {
  return absl::DataLossError(
      fmt::format("graph '{}': {}; build it again with `vrank build`", subject, what));
}

uint32_t HeaderCrc(GraphHeader header) {
  header.header_crc = 0;
  return HostCrc32c(&header, sizeof header);
}

// Bits of an op that no field uses are zero in a file: equal graphs are equal bytes.
void AppendOps(const Program& program, std::string* bytes) {
  bytes->reserve(bytes->size() + program.size() * sizeof(Op));
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    Op flat;
    std::memset(static_cast<void*>(&flat), 0, sizeof flat);
    flat.kind = op.kind;
    flat.source = op.source;
    flat.work = op.work;
    flat.launch = op.launch;
    flat.from_helper = op.from_helper;
    flat.host_source = op.host_source;
    flat.lane = op.lane;
    flat.host_ns = op.host_ns;
    flat.value = op.value;
    flat.a = op.a;
    flat.b = op.b;
    bytes->append(reinterpret_cast<const char*>(&flat), sizeof flat);
  }
}

void Pad(std::string* bytes) {
  bytes->resize((bytes->size() + kAlignment - 1) / kAlignment * kAlignment);
}

// Deterministic: no field of the message is a map.
absl::StatusOr<std::string> Compress(const GraphMeta& meta, uint64_t* raw_bytes) {
  const std::string raw = meta.SerializeAsString();
  *raw_bytes = raw.size();
  std::string compressed(ZSTD_compressBound(raw.size()), '\0');
  const size_t size = ZSTD_compress(compressed.data(), compressed.size(), raw.data(),
                                    raw.size(), kCompressionLevel);
  if (ZSTD_isError(size) != 0)
    return absl::InternalError(
        fmt::format("metadata was not compressed: {}", ZSTD_getErrorName(size)));
  compressed.resize(size);
  return compressed;
}

absl::StatusOr<GraphHeader> ReadHeader(const std::string& subject,
                                       std::span<const unsigned char> bytes) {
  if (bytes.empty())
    return Broken(subject, "the file is empty");
  if (bytes.size() < sizeof(kMagic) ||
      std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return absl::InvalidArgumentError(fmt::format(
        "graph '{}': this is no .vgraph file; make one with `vrank build`", subject));
  GraphHeader header;
  if (bytes.size() < sizeof header)
    return Broken(subject, fmt::format("truncated after {} bytes", bytes.size()));
  std::memcpy(&header, bytes.data(), sizeof header);
  RETURN_IF_ERROR(CheckFormatVersion(fmt::format("graph '{}'", subject), header.version,
                                     kVersion, "build it again with `vrank build`"));
  if (header.header_crc != HeaderCrc(header))
    return Broken(subject, "the header's checksum is wrong");
  if (header.file_bytes != bytes.size())
    return Broken(subject,
                  fmt::format("{} bytes of {}", bytes.size(), header.file_bytes));
  if (header.meta_offset > bytes.size() ||
      header.meta_bytes > bytes.size() - header.meta_offset ||
      header.meta_raw_bytes > kMaxMetaBytes)
    return Broken(subject, "its metadata lies outside the file");
  return header;
}

absl::StatusOr<GraphMeta> ReadMeta(const std::string& subject,
                                   const GraphHeader& header,
                                   std::span<const unsigned char> bytes) {
  const unsigned char* compressed = bytes.data() + header.meta_offset;
  if (HostCrc32c(compressed, header.meta_bytes) != header.meta_crc)
    return Broken(subject, "the metadata's checksum is wrong");
  if (ZSTD_getFrameContentSize(compressed, header.meta_bytes) != header.meta_raw_bytes)
    return Broken(subject, "the metadata has another size than stated");
  std::string raw(header.meta_raw_bytes, '\0');
  const size_t size =
      ZSTD_decompress(raw.data(), raw.size(), compressed, header.meta_bytes);
  GraphMeta meta;
  if (ZSTD_isError(size) != 0 || size != raw.size() || !meta.ParseFromString(raw))
    return Broken(subject, "the metadata cannot be read");
  return meta;
}

// `ns`: the sum of its costs.
absl::StatusOr<std::unique_ptr<Program>> ReadProgram(
    const GraphMeta::Program& row, std::span<const unsigned char> bytes,
    const std::shared_ptr<const void>& keep_alive, int64_t* ns) {
  if (row.offset() % kAlignment != 0 || row.offset() > bytes.size() ||
      row.ops() > (bytes.size() - row.offset()) / sizeof(Op))
    return absl::DataLossError("its ops lie outside the file");
  const auto* ops = reinterpret_cast<const Op*>(bytes.data() + row.offset());
  if (HostCrc32c(ops, row.ops() * sizeof(Op)) != row.crc())
    return absl::DataLossError("the checksum of its ops is wrong");
  const uint64_t end = row.offset() + row.ops() * sizeof(Op);
  const uint64_t padded = (end + kAlignment - 1) / kAlignment * kAlignment;
  const auto padding =
      bytes.subspan(end, std::min<uint64_t>(padded, bytes.size()) - end);
  if (std::any_of(padding.begin(), padding.end(),
                  [](unsigned char byte) { return byte != 0; }))
    return absl::DataLossError("what lies behind its ops is not zero");
  ASSIGN_OR_RETURN(Details details, DetailsOf(row));
  ASSIGN_OR_RETURN(*ns, CheckOps({ops, row.ops()}, details));
  return std::make_unique<Program>(std::span(ops, row.ops()), std::move(details),
                                   keep_alive);
}

// Programs lie apart: what is read is no more than the file.
absl::Status CheckProgramsApart(const GraphMeta& meta, uint64_t file_bytes) {
  uint64_t ops = 0;
  for (const GraphMeta::Program& row : meta.programs()) {
    if (row.ops() > file_bytes / sizeof(Op) - ops)
      return absl::DataLossError("its programs overlap");
    ops += row.ops();
  }
  return absl::OkStatus();
}

// Ends are sums of costs along some way through the ranks. `ns`: by program.
absl::Status CheckLength(const ExecutionGraph& graph, const std::vector<int64_t>& ns) {
  constexpr auto kMost = static_cast<double>(kMaxRankNs);
  double sum = 0;
  for (const ExecutionGraph::Rank& rank : graph.ranks)
    sum += static_cast<double>(ns[rank.program]) +
           static_cast<double>(graph.programs[rank.program]->size()) *
               static_cast<double>(graph.launch_latency_ns);
  if (sum <= kMost)
    return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("its ranks work for {:.3g} s together, more than the {:.3g} s that "
                  "times can hold",
                  sum * 1e-9, kMost * 1e-9));
}

// A mapped file.
class Mapping {
 public:
  static absl::StatusOr<std::shared_ptr<const Mapping>> Open(const std::string& path) {
    const absl::StatusOr<OpenFile> file = OpenRegularFile(path);
    if (!file.ok())
      return absl::Status(
          file.status().code(),
          fmt::format("graph '{}': {}", path, std::string(file.status().message())));
    const int fd = fileno(file->get());
    struct stat facts {};
    void* at = nullptr;
    if (fstat(fd, &facts) == 0 && facts.st_size > 0)
      at = mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, fd,
                0);
    if (at == MAP_FAILED)
      return absl::FailedPreconditionError(
          fmt::format("graph '{}': {}", path, std::strerror(errno)));
    return std::make_shared<const Mapping>(
        at, at == nullptr ? 0 : static_cast<size_t>(facts.st_size));
  }
  Mapping(void* at, size_t size) : at_(at), size_(size) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (at_ != nullptr)
      munmap(at_, size_);
  }
  std::span<const unsigned char> bytes() const {
    return {static_cast<const unsigned char*>(at_), size_};
  }

 private:
  void* const at_;
  const size_t size_;
};

}  // namespace

absl::StatusOr<std::string> EncodeGraph(const ExecutionGraph& graph) {
  GraphMeta meta = ToMeta(graph);
  std::string bytes(sizeof(GraphHeader), '\0');
  for (size_t i = 0; i < graph.programs.size(); ++i) {
    const Program& program = *graph.programs[i];
    Pad(&bytes);
    const size_t offset = bytes.size();
    AppendOps(program, &bytes);
    GraphMeta::Program* row = meta.mutable_programs(static_cast<int>(i));
    row->set_offset(offset);
    row->set_ops(program.size());
    row->set_crc(HostCrc32c(bytes.data() + offset, bytes.size() - offset));
  }
  Pad(&bytes);
  GraphHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.meta_offset = bytes.size();
  ASSIGN_OR_RETURN(const std::string compressed,
                   Compress(meta, &header.meta_raw_bytes));
  header.meta_bytes = compressed.size();
  header.meta_crc = HostCrc32c(compressed.data(), compressed.size());
  bytes += compressed;
  header.file_bytes = bytes.size();
  header.header_crc = HeaderCrc(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

absl::StatusOr<ExecutionGraph> DecodeGraph(const std::string& subject,
                                           std::span<const unsigned char> bytes,
                                           std::shared_ptr<const void> keep_alive) {
  ASSIGN_OR_RETURN(const GraphHeader header, ReadHeader(subject, bytes));
  ASSIGN_OR_RETURN(const GraphMeta meta, ReadMeta(subject, header, bytes));
  ExecutionGraph graph;
  if (const absl::Status status = FromMeta(meta, &graph); !status.ok())
    return Broken(subject, std::string(status.message()));
  if (const absl::Status apart = CheckProgramsApart(meta, bytes.size()); !apart.ok())
    return Broken(subject, std::string(apart.message()));
  std::vector<int64_t> ns(static_cast<size_t>(meta.programs_size()));
  for (int i = 0; i < meta.programs_size(); ++i) {
    auto program =
        ReadProgram(meta.programs(i), bytes, keep_alive, &ns[static_cast<size_t>(i)]);
    if (!program.ok())
      return Broken(subject, fmt::format("program {}: {}", i,
                                         std::string(program.status().message())));
    graph.programs.push_back(*std::move(program));
  }
  if (const absl::Status length = CheckLength(graph, ns); !length.ok())
    return Broken(subject, std::string(length.message()));
  return graph;
}

absl::Status WriteGraph(const ExecutionGraph& graph, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, EncodeGraph(graph));
  WholeFile file(path);
  if (file.stream() != nullptr &&
      std::fwrite(bytes.data(), 1, bytes.size(), file.stream()) == bytes.size() &&
      file.Commit())
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("graph '{}' cannot be written: {}", path, std::strerror(errno)));
}

absl::StatusOr<ExecutionGraph> OpenGraph(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Mapping> mapping, Mapping::Open(path));
  return DecodeGraph(path, mapping->bytes(), mapping);
}

}  // namespace vrank::graph
