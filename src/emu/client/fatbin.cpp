#include "emu/client/fatbin.h"

#include <cstring>

namespace sculler::emu::client {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kFatbinMagic = 0xba55ed50;
constexpr uint16_t kKindPtx = 1;
constexpr uint64_t kFlagLz4 = 0x2000;
constexpr uint64_t kFlagZstd = 0x8000;

struct Wrapper {
  uint32_t magic, version;
  const void* data;
  const void* files;
};
struct FatbinHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};
struct EntryHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes, options_offset;
  uint16_t minor, major;
  uint32_t arch;
  uint32_t name_offset, name_bytes;
  uint64_t flags;
  uint64_t reserved, plain_bytes;
};
static_assert(sizeof(FatbinHeader) == 16 && sizeof(EntryHeader) == 64);

bool looks_like_ptx(const char* text) {
  for (int i = 0; i < 4096 && text[i] != '\0'; ++i) {
    if (std::strncmp(text + i, ".version", 8) == 0) return true;
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 9 || c > 126) return false;
  }
  return false;
}

}  // namespace

std::vector<PtxImage> find_ptx(const void* image, std::string& why) {
  std::vector<PtxImage> found;
  if (image == nullptr) {
    why = "the image is a null pointer";
    return found;
  }
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == kWrapperMagic) {
    Wrapper wrapper{};
    std::memcpy(&wrapper, image, sizeof wrapper);
    return find_ptx(wrapper.data, why);
  }
  if (magic == 0x464c457f) {
    why =
        "the image is a cubin (machine code): the emulator runs PTX; compile with code=compute_90a "
        "as well";
    return found;
  }
  if (magic != kFatbinMagic) {
    const char* text = static_cast<const char*>(image);
    if (looks_like_ptx(text)) {
      found.push_back({text, 0});
    } else {
      why = "the image is neither a fat binary nor PTX text";
    }
    return found;
  }
  FatbinHeader header{};
  std::memcpy(&header, image, sizeof header);
  const char* at = static_cast<const char*>(image) + header.header_bytes;
  const char* end = at + header.bytes;
  bool compressed = false;
  while (at + sizeof(EntryHeader) <= end) {
    EntryHeader entry{};
    std::memcpy(&entry, at, sizeof entry);
    if (entry.header_bytes < sizeof entry ||
        entry.bytes > static_cast<uint64_t>(end - at) - entry.header_bytes)
      break;
    if (entry.kind == kKindPtx) {
      if ((entry.flags & (kFlagLz4 | kFlagZstd)) != 0) {
        compressed = true;
      } else {
        const char* text = at + entry.header_bytes;
        found.push_back({std::string(text, ::strnlen(text, entry.bytes)), entry.arch});
      }
    }
    at += entry.header_bytes + entry.bytes;
  }
  if (found.empty()) {
    why = compressed ? "its PTX is compressed: compile with nvcc --no-compress"
                     : "it holds no PTX: compile with -gencode arch=compute_90a,code=compute_90a "
                       "(or code=[compute_90a,sm_90a])";
  }
  return found;
}

}  // namespace sculler::emu::client
