#include "graph/import/file_kind.h"

#include <algorithm>
#include <cctype>

namespace vrank::graph {
namespace {

using std::string_view_literals::operator""sv;

// The first row that fits counts.
struct Kind {
  std::string_view begin, text;
};
constexpr Kind kKinds[] = {
    {"\xFF\xFE"sv, "it is text in UTF-16; convert it (`iconv -f UTF-16 -t UTF-8`)"},
    {"\xFE\xFF"sv, "it is text in UTF-16; convert it (`iconv -f UTF-16 -t UTF-8`)"},
    {"{\0"sv, "it is text in UTF-16; convert it (`iconv -f UTF-16LE -t UTF-8`)"},
    {"[\0"sv, "it is text in UTF-16; convert it (`iconv -f UTF-16LE -t UTF-8`)"},
    {"\0{"sv, "it is text in UTF-16; convert it (`iconv -f UTF-16BE -t UTF-8`)"},
    {"\0["sv, "it is text in UTF-16; convert it (`iconv -f UTF-16BE -t UTF-8`)"},
    {"PK\3\4"sv,
     "it is a zip archive (files of torch.save are, too); unpack it and give the JSON "
     "files inside"},
    {"PK\5\6"sv, "it is a zip archive without files; give JSON files"},
    {"\x28\xB5\x2F\xFD"sv, "it is compressed by zstd; decompress it (`zstd -d`)"},
    {"\xFD"
     "7zXZ\0"sv,
     "it is compressed by xz; decompress it (`xz -d`)"},
    {"BZh"sv, "it is compressed by bzip2; decompress it (`bzip2 -d`)"},
    {"\x04\x22\x4D\x18"sv, "it is compressed by lz4; decompress it (`lz4 -d`)"},
    {"\x1F\x8B"sv, "it is compressed by gzip twice; decompress it once (`gzip -d`)"},
    {"version https://git-lfs"sv,
     "it is a pointer of Git LFS, not the file itself; fetch that (`git lfs pull`)"},
    {"SQLite format 3\0"sv,
     "it is an SQLite database (`nsys export` writes such); reports of Nsight Systems "
     "are not read, record with torch.profiler and its export_chrome_trace"},
};

bool IsPickle(std::string_view head) {
  // Protocols 2 to 5 begin with PROTO; of 0 and 1, dictionaries, lists and tuples.
  return (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) ||
         head.substr(0, 3) == "(dp" || head.substr(0, 3) == "(lp" ||
         head.substr(0, 2) == "}q" || head.substr(0, 2) == "]q";
}

// <!DOCTYPE html>, <html>, <?xml ...>
bool IsMarkup(std::string_view head) {
  const auto first = std::find_if(head.begin(), head.end(),
                                  [](unsigned char c) { return std::isspace(c) == 0; });
  return first != head.end() && *first == '<';
}

bool IsTar(std::string_view head) {
  constexpr size_t kMagicAt = 257;
  return head.size() > kMagicAt && head.substr(kMagicAt, 5) == "ustar";
}

}  // namespace

std::string_view DescribeOtherKind(std::string_view head) {
  for (const Kind& kind : kKinds)
    if (head.substr(0, kind.begin.size()) == kind.begin)
      return kind.text;
  if (IsPickle(head))
    return "it is a Python pickle (snapshots of PyTorch's memory are), which is not "
           "read; give the JSON that export_chrome_trace of torch.profiler wrote";
  if (IsMarkup(head))
    return "it is a web page or XML; download the file itself (its raw form)";
  if (IsTar(head))
    return "it is a tar archive; unpack it and give the JSON files inside";
  return {};
}

}  // namespace vrank::graph
