// Reads; where that succeeds, writes and reads again.

#include "tests/graph/file/file_fuzz.h"

#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/guest/crc32c.h"
#include "graph/file/graph_file.h"
#include "graph/file/graph_file.pb.h"
#include "graph/file/kernel_table.h"
#include "graph/file/kernel_table.pb.h"

namespace vrank::graph {
namespace {

constexpr size_t kHeaderBytes = 64;
constexpr size_t kHeaderCrcAt = 12;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

absl::StatusOr<ExecutionGraph> Decode(const std::string& bytes) {
  auto copy = std::shared_ptr<unsigned char>(
      static_cast<unsigned char*>(std::aligned_alloc(64, (bytes.size() / 64 + 1) * 64)),
      [](unsigned char* at) { std::free(at); });
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return DecodeGraph("t.vgraph", {copy.get(), bytes.size()}, copy);
}

// What stands between the parts of a file is nobody's, so the first writing may differ
// from the input; the second may not differ from the first.
void FuzzGraph(const std::string& bytes) {
  const auto first = Decode(bytes);
  if (!first.ok()) {
    if (first.status().ToString().find("'t.vgraph'") == std::string::npos)
      Fail("an error does not name its file");
    return;
  }
  const auto written = EncodeGraph(*first);
  if (!written.ok())
    Fail("what was read cannot be written");
  const auto second = Decode(*written);
  if (!second.ok())
    Fail("what was written cannot be read");
  if (*EncodeGraph(*second) != *written)
    Fail("what was read again is not what was written");
}

void FuzzTable(const std::string& bytes) {
  const auto first = KernelTable::Parse("t.vkernels", bytes);
  if (!first.ok()) {
    if (first.status().ToString().find("'t.vkernels'") == std::string::npos)
      Fail("an error does not name its file");
    return;
  }
  const std::string written = first->Serialize();
  const auto second = KernelTable::Parse("t.vkernels", written);
  if (!second.ok())
    Fail("what was written cannot be read");
  if (second->Serialize() != written)
    Fail("what was read again is not what was written");
}

template <typename T>
void Put(std::string* bytes, size_t at, T value) {
  std::memcpy(bytes->data() + at, &value, sizeof value);
}

// A file of these parts, as EncodeGraph lays them out; every program has all ops.
std::string Pack(const std::string& ops, GraphMeta meta) {
  for (GraphMeta::Program& program : *meta.mutable_programs()) {
    program.set_offset(kHeaderBytes);
    program.set_ops(ops.size() / sizeof(Op));
    program.set_crc(Crc32c(ops.data(), ops.size()));
  }
  const std::string raw = meta.SerializeAsString();
  std::string compressed(ZSTD_compressBound(raw.size()), '\0');
  compressed.resize(
      ZSTD_compress(compressed.data(), compressed.size(), raw.data(), raw.size(), 1));
  std::string bytes(kHeaderBytes, '\0');
  bytes.replace(0, 8, "VRGRAPH\n");
  bytes += ops + compressed;
  Put<uint32_t>(&bytes, 8, 1);
  Put<uint64_t>(&bytes, 16, bytes.size());
  Put<uint64_t>(&bytes, 24, kHeaderBytes + ops.size());
  Put<uint64_t>(&bytes, 32, compressed.size());
  Put<uint64_t>(&bytes, 40, raw.size());
  Put<uint32_t>(&bytes, 48, Crc32c(compressed.data(), compressed.size()));
  Put<uint32_t>(&bytes, kHeaderCrcAt, Crc32c(bytes.data(), kHeaderBytes));
  return bytes;
}

void FuzzParts(const std::string& rest) {
  if (rest.empty())
    return;
  const size_t ops = std::min(static_cast<size_t>(static_cast<uint8_t>(rest[0])),
                              (rest.size() - 1) / sizeof(Op));
  GraphMeta meta;
  if (meta.ParseFromString(rest.substr(1 + ops * sizeof(Op))))
    FuzzGraph(Pack(rest.substr(1, ops * sizeof(Op)), std::move(meta)));
}

void FuzzMessage(const std::string& rest) {
  KernelTableFile file;
  if (!file.ParseFromString(rest))
    return;
  file.clear_crc();
  const std::string body = file.SerializeAsString();
  file.set_crc(Crc32c(body.data(), body.size()));
  FuzzTable(file.SerializeAsString());
}

}  // namespace

void FuzzGraphFiles(const uint8_t* data, size_t size) {
  if (size == 0)
    return;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      return FuzzGraph(rest);
    case 1:
      return FuzzParts(rest);
    case 2:
      return FuzzTable(rest);
    default:
      return FuzzMessage(rest);
  }
}

}  // namespace vrank::graph
