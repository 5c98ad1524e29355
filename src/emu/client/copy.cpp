#include <algorithm>
#include <cstring>

#include "emu/client/client.h"

namespace sculler::emu::client {
namespace {

bool known(uint64_t address) { return is_device(address) || is_host(address); }

// Rows that fit a message together, at least one.
uint64_t rows_a_chunk(uint64_t width, uint64_t height) {
  return std::clamp<uint64_t>(wire::kChunkBytes / std::max<uint64_t>(width, 1), 1, height);
}

int copy_in(uint64_t to, uint64_t to_pitch, const uint8_t* from, uint64_t from_pitch,
            uint64_t width, uint64_t height, uint64_t stream, bool blocking) {
  const uint64_t rows = rows_a_chunk(width, height);
  for (uint64_t row = 0; row < height; row += rows) {
    const uint64_t n = std::min(rows, height - row);
    for (uint64_t begin = 0; begin < width; begin += wire::kChunkBytes) {
      wire::CopyIn request;
      request.to = to + row * to_pitch + begin;
      request.to_pitch = to_pitch;
      request.width = std::min<uint64_t>(width - begin, wire::kChunkBytes);
      request.height = n;
      request.stream = stream;
      request.blocking = blocking && row + n == height && begin + request.width == width;
      request.data.resize(request.width * n);
      for (uint64_t i = 0; i < n; ++i) {
        std::memcpy(request.data.data() + i * request.width, from + (row + i) * from_pitch + begin,
                    request.width);
      }
      if (const int error = call(request); error != kSuccess) return error;
    }
  }
  return kSuccess;
}

int copy_out(uint8_t* to, uint64_t to_pitch, uint64_t from, uint64_t from_pitch, uint64_t width,
             uint64_t height, uint64_t stream) {
  const uint64_t rows = rows_a_chunk(width, height);
  for (uint64_t row = 0; row < height; row += rows) {
    const uint64_t n = std::min(rows, height - row);
    for (uint64_t begin = 0; begin < width; begin += wire::kChunkBytes) {
      wire::CopyOut request;
      request.from = from + row * from_pitch + begin;
      request.from_pitch = from_pitch;
      request.width = std::min<uint64_t>(width - begin, wire::kChunkBytes);
      request.height = n;
      request.stream = stream;
      wire::BytesReply reply;
      if (const int error = call(request, reply); error != kSuccess) return error;
      if (reply.data.size() != request.width * n) return kUnknown;
      for (uint64_t i = 0; i < n; ++i) {
        std::memcpy(to + (row + i) * to_pitch + begin, reply.data.data() + i * request.width,
                    request.width);
      }
    }
  }
  return kSuccess;
}

}  // namespace

int copy(uint64_t to, uint64_t to_pitch, uint64_t from, uint64_t from_pitch, uint64_t width,
         uint64_t height, uint64_t stream, bool blocking) {
  if (world() == nullptr) return kNoDevice;
  if (width == 0 || height == 0) return kSuccess;
  if (to == 0 || from == 0) return kInvalidValue;
  if (height == 1 || (to_pitch == width && from_pitch == width)) {
    width *= height;
    height = 1;
    to_pitch = from_pitch = width;
  }
  if (to_pitch < width || from_pitch < width) return 12;  // cudaErrorInvalidPitchValue
  if (known(to) && known(from)) {
    wire::Copy request;
    request.to = to;
    request.to_pitch = to_pitch;
    request.from = from;
    request.from_pitch = from_pitch;
    request.width = width;
    request.height = height;
    request.stream = stream;
    request.blocking = blocking;
    return call(request);
  }
  auto* const host_to = reinterpret_cast<uint8_t*>(to);
  const auto* const host_from = reinterpret_cast<const uint8_t*>(from);
  if (known(to))
    return copy_in(to, to_pitch, host_from, from_pitch, width, height, stream, blocking);
  if (known(from)) return copy_out(host_to, to_pitch, from, from_pitch, width, height, stream);
  wire::StreamSynchronize wait;
  wait.handle = stream;
  if (const int error = call(wait); error != kSuccess) return error;
  for (uint64_t i = 0; i < height; ++i)
    std::memmove(host_to + i * to_pitch, host_from + i * from_pitch, width);
  return kSuccess;
}

}  // namespace sculler::emu::client
