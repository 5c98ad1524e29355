// Arrays in NumPy's file format (npy, versions 1 to 3): little endian, C order. What is read must
// have exactly the element type that is asked for; nothing is converted silently.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace sculler::gnn {

template <class T>
struct Array {
  std::vector<uint64_t> shape;
  std::vector<T> data;
};

// NumPy's name of an element type: "<f4", "<u8", "|u1"; a mask of bytes is written as "|b1".
template <class T>
[[nodiscard]] std::string element_name() {
  if (sizeof(T) == 1) return "|b1";
  const char kind = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
  return std::string("<") + kind + std::to_string(sizeof(T));
}

namespace npy {
struct Head {
  std::string element;
  std::vector<uint64_t> shape;
  std::string_view bytes;  // of the elements
};
// `origin` becomes Error.file; `bytes` has exactly as many elements of `element_bytes` as the
// shape says.
[[nodiscard]] Result<Head> parse(std::string_view file, std::string_view origin,
                                 const std::string& element, uint64_t element_bytes);
[[nodiscard]] std::string head(const std::string& element, std::span<const uint64_t> shape);
[[nodiscard]] Result<std::string> load(const std::string& path);
[[nodiscard]] Status save(const std::string& path, std::string_view bytes);
}  // namespace npy

template <class T>
[[nodiscard]] Result<Array<T>> parse_npy(std::string_view file, std::string_view origin) {
  auto head = npy::parse(file, origin, element_name<T>(), sizeof(T));
  if (!head) return fail(head.error());
  Array<T> out{std::move(head->shape), std::vector<T>(head->bytes.size() / sizeof(T))};
  if (!out.data.empty()) std::memcpy(out.data.data(), head->bytes.data(), head->bytes.size());
  return out;
}

template <class T>
[[nodiscard]] Result<Array<T>> read_npy(const std::string& path) {
  auto file = npy::load(path);
  if (!file) return fail(file.error());
  return parse_npy<T>(*file, path);
}

// With `rows` elements in one dimension, or rows × columns where `columns` is not 0; otherwise the
// error says what is there.
template <class T>
[[nodiscard]] Result<std::vector<T>> read_npy_of(const std::string& path, uint64_t rows,
                                                 uint64_t columns = 0) {
  auto array = read_npy<T>(path);
  if (!array) return fail(array.error());
  std::vector<uint64_t> expected{rows};
  if (columns != 0) expected.push_back(columns);
  if (array->shape == expected) return std::move(array->data);
  const auto text = [](const std::vector<uint64_t>& shape) {
    std::string out;
    for (const uint64_t n : shape) out += (out.empty() ? "" : " x ") + std::to_string(n);
    return out.empty() ? std::string("a single number") : out;
  };
  return fail({ErrorCode::kBadInput,
               "is " + text(array->shape) + ", " + text(expected) + " is expected", path, "shape",
               "Write the files of a graph together, by one command."});
}

template <class T>
[[nodiscard]] Status write_npy(const std::string& path, std::span<const T> data,
                               uint64_t columns = 0) {
  std::vector<uint64_t> shape{columns == 0 ? data.size() : data.size() / columns};
  if (columns != 0) shape.push_back(columns);
  std::string out = npy::head(element_name<T>(), shape);
  out.append(reinterpret_cast<const char*>(data.data()), data.size_bytes());
  return npy::save(path, out);
}
template <class T>
[[nodiscard]] Status write_npy(const std::string& path, const std::vector<T>& data,
                               uint64_t columns = 0) {
  return write_npy(path, std::span<const T>(data), columns);
}

}  // namespace sculler::gnn
