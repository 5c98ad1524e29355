#include "emu/ptx/fatbin.h"

#include <cstring>
#include <optional>
#include <string_view>

namespace sculler::emu::ptx {
namespace {

constexpr uint32_t kMagic = 0xBA55ED50;
constexpr uint64_t kMaxBytes = uint64_t{1} << 32;
constexpr size_t kMaxEntries = 4096;
constexpr uint64_t kEntryHeader = 64;
constexpr uint32_t kZstdMagic = 0xFD2FB528;

template <class T>
T read(std::span<const uint8_t> data, uint64_t at) {
  T value{};
  std::memcpy(&value, data.data() + at, sizeof value);
  return value;
}

bool within(std::span<const uint8_t> data, uint64_t at, uint64_t bytes) {
  return at <= data.size() && bytes <= data.size() - at;
}

std::string_view view(std::span<const uint8_t> data, uint64_t at, uint64_t bytes) {
  return {reinterpret_cast<const char*>(data.data()) + at, bytes};
}

std::string until_nul(std::string_view text) {
  return std::string(text.substr(0, text.find('\0')));
}

tl::unexpected<Error> damaged(std::string what) {
  return fail(ErrorCode::kBadInput, "fat binary: " + std::move(what),
              "Rebuild the object with nvcc 13.");
}

Result<FatbinEntry> entry(std::span<const uint8_t> data, uint64_t at, uint64_t header,
                          uint64_t bytes) {
  FatbinEntry out;
  const auto kind = read<uint16_t>(data, at);
  if (kind != 1 && kind != 2) return damaged("an entry of unknown kind " + std::to_string(kind));
  out.kind = kind == 1 ? FatbinEntry::Kind::kPtx : FatbinEntry::Kind::kElf;
  const auto compressed = read<uint32_t>(data, at + 16);
  const auto options = read<uint32_t>(data, at + 20);
  out.version_minor = read<uint16_t>(data, at + 24);
  out.version_major = read<uint16_t>(data, at + 26);
  out.arch = read<uint32_t>(data, at + 28);
  const uint64_t name = read<uint32_t>(data, at + 32), name_bytes = read<uint32_t>(data, at + 36);
  const auto unpacked = read<uint64_t>(data, at + 56);
  const bool zstd = bytes >= 4 && read<uint32_t>(data, at + header) == kZstdMagic;
  if (compressed != 0 || unpacked != 0 || zstd) {
    return fail(ErrorCode::kUnsupported, "fat binary: the PTX is compressed",
                "Compile with nvcc --no-compress.");
  }
  if (name != 0 && name <= header && name_bytes <= header - name) {
    out.name = until_nul(view(data, at + name, name_bytes));
  }
  // Offset and length of the options stand before the text.
  if (options >= kEntryHeader && options <= header && header - options >= 8) {
    const uint64_t where = read<uint32_t>(data, at + options),
                   length = read<uint32_t>(data, at + options + 4);
    if (where <= header && length <= header - where)
      out.options = until_nul(view(data, at + where, length));
  }
  const std::string_view payload = view(data, at + header, bytes);
  out.text = out.kind == FatbinEntry::Kind::kPtx ? until_nul(payload) : std::string(payload);
  return out;
}

struct Section {
  uint32_t name, type;
  uint64_t offset, bytes;
  uint32_t link, info;
  uint64_t entry_bytes;
};

std::optional<Section> section_at(std::span<const uint8_t> elf, uint64_t at) {
  if (!within(elf, at, 64)) return std::nullopt;
  return Section{read<uint32_t>(elf, at),      read<uint32_t>(elf, at + 4),
                 read<uint64_t>(elf, at + 24), read<uint64_t>(elf, at + 32),
                 read<uint32_t>(elf, at + 40), read<uint32_t>(elf, at + 44),
                 read<uint64_t>(elf, at + 56)};
}

// The string of a table section at `at`; empty where it leaves the section.
std::string string_at(std::span<const uint8_t> elf, const Section& table, uint64_t at) {
  constexpr uint32_t kNoBits = 8;
  if (table.type == kNoBits || !within(elf, table.offset, table.bytes) || at >= table.bytes)
    return {};
  return until_nul(view(elf, table.offset + at, table.bytes - at));
}

}  // namespace

Result<uint64_t> fatbin_bytes(std::span<const uint8_t> header) {
  if (header.size() < kFatbinHeader) return damaged("the header is cut off");
  if (read<uint32_t>(header, 0) != kMagic) return damaged("wrong magic number");
  const auto own = read<uint16_t>(header, 6);
  const auto bytes = read<uint64_t>(header, 8);
  if (own < kFatbinHeader || bytes > kMaxBytes) return damaged("impossible sizes in the header");
  return own + bytes;
}

Result<std::vector<FatbinEntry>> read_fatbin(std::span<const uint8_t> data) {
  std::vector<FatbinEntry> entries;
  uint64_t at = 0;
  // Linked objects hold several fat binaries in a row, padded with zeros.
  while (at < data.size()) {
    if (!entries.empty() && data[at] == 0) {
      ++at;
      continue;
    }
    const auto bytes = fatbin_bytes(data.subspan(at));
    if (!bytes) return tl::unexpected<Error>(bytes.error());
    if (!within(data, at, *bytes))
      return damaged("it ends before its size of " + std::to_string(*bytes));
    const uint64_t end = at + *bytes;
    at += read<uint16_t>(data, at + 6);
    if (at > end) return damaged("impossible sizes in the header");
    while (at < end) {
      if (end - at < kEntryHeader) return damaged("the header of an entry is cut off");
      const uint64_t header = read<uint32_t>(data, at + 4), size = read<uint64_t>(data, at + 8);
      if (header < kEntryHeader || header > end - at || size > end - at - header) {
        return damaged("entry " + std::to_string(entries.size()) + " does not fit");
      }
      if (entries.size() == kMaxEntries) return damaged("more than 4096 entries");
      auto one = entry(data, at, header, size);
      if (!one) return tl::unexpected<Error>(one.error());
      entries.push_back(std::move(*one));
      at += header + size;
    }
  }
  if (entries.empty()) return damaged("no entries");
  return entries;
}

std::map<std::string, uint32_t> cubin_registers(std::span<const uint8_t> elf) {
  std::map<std::string, uint32_t> registers;
  if (elf.size() < 64 || std::memcmp(elf.data(),
                                     "\x7f"
                                     "ELF\x02\x01",
                                     6) != 0)
    return registers;
  const auto table = read<uint64_t>(elf, 0x28);
  const auto stride = read<uint16_t>(elf, 0x3a), count = read<uint16_t>(elf, 0x3c),
             names = read<uint16_t>(elf, 0x3e);
  if (stride < 64 || !within(elf, table, uint64_t{stride} * count)) return registers;
  std::vector<Section> sections;
  for (uint64_t i = 0; i < count; ++i) {
    const auto section = section_at(elf, table + i * stride);
    if (!section) return registers;
    sections.push_back(*section);
  }
  if (names >= sections.size()) return registers;
  for (const Section& section : sections) {
    const std::string name = string_at(elf, sections[names], section.name);
    constexpr std::string_view kText = ".text.";
    // Up to CUDA 12 the count stood in the section header.
    if (name.rfind(kText, 0) == 0 && (section.info >> 24) != 0) {
      registers.try_emplace(name.substr(kText.size()), section.info >> 24);
    }
    if (name != ".nv.info" || !within(elf, section.offset, section.bytes) ||
        section.link >= sections.size())
      continue;
    const Section& symbols = sections[section.link];
    if (symbols.entry_bytes < 24 || !within(elf, symbols.offset, symbols.bytes) ||
        symbols.link >= sections.size())
      continue;
    // Records: format, attribute, u16 value or length, value. EIATTR_REGCOUNT holds symbol index
    // and count.
    const uint64_t end = section.offset + section.bytes;
    for (uint64_t at = section.offset; at + 4 <= end;) {
      constexpr uint8_t kSized = 4, kRegisterCount = 0x2f;
      const uint8_t format = elf[at], attribute = elf[at + 1];
      const uint64_t length = format == kSized ? read<uint16_t>(elf, at + 2) : 0;
      at += 4;
      if (length > end - at) break;
      if (format == kSized && attribute == kRegisterCount && length >= 8) {
        const uint64_t index = read<uint32_t>(elf, at);
        const auto value = read<uint32_t>(elf, at + 4);
        if (index < symbols.bytes / symbols.entry_bytes) {
          const auto text = read<uint32_t>(elf, symbols.offset + index * symbols.entry_bytes);
          const std::string symbol = string_at(elf, sections[symbols.link], text);
          if (!symbol.empty() && value != 0 && value <= 255) registers[symbol] = value;
        }
      }
      at += length;
    }
  }
  return registers;
}

}  // namespace sculler::emu::ptx
