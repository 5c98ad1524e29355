#include "gnn/npy.h"

#include "base/files.h"
#include "base/strings.h"

namespace sculler::gnn::npy {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

tl::unexpected<Error> bad(std::string_view origin, std::string message, std::string key = {},
                          std::string cure = {}) {
  return fail({ErrorCode::kBadInput, std::move(message), std::string(origin), std::move(key),
               std::move(cure)});
}

// The text behind 'key': in the head's dictionary, up to its end or a comma outside brackets.
std::string_view value_of(std::string_view dictionary, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "'";
  const auto at = dictionary.find(quoted);
  if (at == std::string_view::npos) return {};
  std::string_view rest = trim(dictionary.substr(at + quoted.size()));
  if (rest.empty() || rest[0] != ':') return {};
  rest = trim(rest.substr(1));
  const auto end = rest.starts_with('(')    ? rest.find(')') + 1
                   : rest.starts_with('\'') ? rest.find('\'', 1) + 1
                                            : rest.find_first_of(",}");
  return end == 0 || end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

Result<std::vector<uint64_t>> shape_of(std::string_view text, std::string_view origin) {
  std::vector<uint64_t> shape;
  if (text.size() < 2 || text.front() != '(' || text.back() != ')')
    return bad(origin, "has no shape", "shape");
  for (const auto part : split(text.substr(1, text.size() - 2), ',')) {
    if (trim(part).empty()) continue;
    const auto number = parse_int(trim(part));
    if (!number || *number < 0) return bad(origin, "is no shape: " + std::string(text), "shape");
    shape.push_back(static_cast<uint64_t>(*number));
  }
  return shape;
}

}  // namespace

Result<Head> parse(std::string_view file, std::string_view origin, const std::string& element,
                   uint64_t element_bytes) {
  if (!file.starts_with(kMagic) || file.size() < 10)
    return bad(origin, "is no npy file", {}, "Write it with numpy.save() or sculler-gnn.");
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(file[i])); };
  const uint64_t version = byte(6);
  if (version < 1 || version > 3)
    return bad(origin, "is npy version " + std::to_string(version), "version",
               "Write it with version 1, 2 or 3.");
  const uint64_t begin = version == 1 ? 10 : 12;
  uint64_t length = byte(8) | byte(9) << 8;
  if (version > 1) {
    if (file.size() < begin) return bad(origin, "is cut within its head");
    length |= byte(10) << 16 | byte(11) << 24;
  }
  if (file.size() - begin < length) return bad(origin, "is cut within its head");
  const std::string_view dictionary = file.substr(begin, length);

  Head head;
  const auto descr = value_of(dictionary, "descr");
  if (descr.size() < 3) return bad(origin, "has no element type", "descr");
  head.element = std::string(descr.substr(1, descr.size() - 2));
  const bool bytes = element == "|b1" && head.element == "|u1";
  if (head.element != element && !bytes)
    return bad(origin, "has elements of type " + head.element + ", " + element + " is expected",
               "descr", "Convert it: array.astype('" + element + "').");
  if (value_of(dictionary, "fortran_order") != "False")
    return bad(origin, "is not in C order", "fortran_order",
               "Convert it: numpy.ascontiguousarray(array).");
  auto shape = shape_of(value_of(dictionary, "shape"), origin);
  if (!shape) return fail(shape.error());
  head.shape = std::move(*shape);
  head.bytes = file.substr(begin + length);

  uint64_t elements = 1;
  for (const uint64_t n : head.shape) {
    if (n != 0 && elements > (uint64_t{1} << 48) / n)
      return bad(origin, "is larger than any machine", "shape");
    elements *= n;
  }
  if (head.bytes.size() != elements * element_bytes)
    return bad(origin,
               "has " + std::to_string(head.bytes.size()) + " bytes of elements, its shape says " +
                   std::to_string(elements * element_bytes),
               "shape", "The file was cut or changed: write it again.");
  return head;
}

std::string head(const std::string& element, std::span<const uint64_t> shape) {
  std::string text = "{'descr': '" + element + "', 'fortran_order': False, 'shape': (";
  for (const uint64_t n : shape) text += std::to_string(n) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  else if (!shape.empty()) text.pop_back();
  text += "), }";
  const size_t total = (kMagic.size() + 4 + text.size() + 1 + 63) / 64 * 64;
  text.append(total - kMagic.size() - 4 - text.size() - 1, ' ');
  text += '\n';
  std::string out(kMagic);
  out += '\1';
  out += '\0';
  out += static_cast<char>(text.size() & 0xFF);
  out += static_cast<char>(text.size() >> 8);
  return out + text;
}

Result<std::string> load(const std::string& path) {
  return real_files().read(path, uint64_t{1} << 40);
}

Status save(const std::string& path, std::string_view bytes) {
  return real_files().write_atomic(path, bytes);
}

}  // namespace sculler::gnn::npy
