// Which instruction an incorrect output comes from, out of the checker's shadow memory.
#include <cstdio>

#include "emu/server/job_mode.h"
#include "emu/server/report.h"

namespace sculler::emu {
namespace {

std::string on_rank(int rank) { return "rank " + std::to_string(rank); }

// "rank 0 at ring.cu:84", "rank 1 in cudaMemcpyAsync at ring.cu:90"
std::string by(const Machine& machine, const Finding::Side& side) {
  std::string text = on_rank(side.rank);
  const std::string place = place_of(machine, side.code);
  if (!place.empty()) {
    if (side.block >= 0) text += " block " + std::to_string(side.block);
    if (!side.what.empty()) text += " in " + side.what;
    return text + " at " + place;
  }
  return side.what.empty() ? text : text + " in " + side.what;
}

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

bool VmDevice::writer_of(int rank, int set, int buffer, uint64_t element,
                         Finding::Side* writer) const {
  const verify::BufferSpec& b = job_.buffers[static_cast<std::size_t>(buffer)];
  const auto begin = reinterpret_cast<Address>(at(rank, set, buffer));
  return history_->last_writer(begin + element * (b.bytes / b.elements), writer) &&
         !by_harness(*writer);
}

std::string VmDevice::position(int rank, int buffer, int64_t element) const {
  const verify::BufferSpec& b = job_.buffers[static_cast<std::size_t>(buffer)];
  const auto e = static_cast<uint64_t>(element);
  return "element " + std::to_string(e) + " (row " + std::to_string(e / b.row_elements) +
         ", column " + std::to_string(e % b.row_elements) + ") of " + b.name + " on " +
         on_rank(rank);
}

std::optional<verify::Device::Blame> VmDevice::blame(int rank, int set, int buffer, int64_t element,
                                                     bool unwritten, int content) {
  if (history_ == nullptr) return std::nullopt;
  if (buffer < 0) return blame_input(rank, set);
  const verify::BufferSpec& b = job_.buffers[static_cast<std::size_t>(buffer)];
  if (element < 0 || b.elements == 0 || static_cast<uint64_t>(element) >= b.elements)
    return std::nullopt;
  const auto index = static_cast<uint64_t>(element);
  Finding::Side writer;
  if (unwritten || !writer_of(rank, set, buffer, index, &writer))
    return blame_unwritten(rank, set, buffer, element);
  Blame out;
  out.where = place_of(machine_, writer.code);
  out.message = position(rank, buffer, element) + " was last written by " + by(machine_, writer);
  if (auto expected = reference_.expected(content, rank, buffer)) {
    const double got =
        sculler_bits_value(sculler_load_bits(at(rank, set, buffer), index, b.dtype), b.dtype);
    out.message += ": " + figure(got) + " instead of " + figure((*expected)->values[index]);
  }
  out.advice = writer.rank != rank
                   ? "check what " + on_rank(writer.rank) + " stores to " + on_rank(rank) + " there"
                   : "check the value and the index of that store";
  out.advice += ": the element, the rank and the tile that it belongs to";
  return out;
}

verify::Device::Blame VmDevice::blame_unwritten(int rank, int set, int buffer, int64_t element) {
  const verify::BufferSpec& b = job_.buffers[static_cast<std::size_t>(buffer)];
  const auto index = static_cast<uint64_t>(element);
  Blame out;
  Finding::Side writer;
  // The same element elsewhere: that store went to one rank and not to the other.
  for (int step = 1; step < job_.n_ranks; ++step) {
    const int peer = (rank + step) % job_.n_ranks;
    if (!writer_of(peer, set, buffer, index, &writer)) continue;
    out.where = place_of(machine_, writer.code);
    out.message = "on " + on_rank(peer) + " that element was last written by " +
                  by(machine_, writer) + ", on " + on_rank(rank) + " by nobody";
    out.advice = "let " + on_rank(writer.rank) + " store it to " + on_rank(rank) +
                 " as well: check the peer index of that store";
    return out;
  }
  // Else the nearest store to the buffer, else any to a buffer of that role in any set.
  const auto take = [&](int owner, int of_set, uint64_t at_element) {
    if (!writer_of(owner, of_set, buffer, at_element, &writer)) return false;
    out.where = place_of(machine_, writer.code);
    out.message = "the nearest store is that of " + by(machine_, writer) + " to " +
                  position(owner, buffer, static_cast<int64_t>(at_element)) +
                  (of_set == set ? "" : ", set " + std::to_string(of_set));
    out.advice = "check the range and the peers of that store: it leaves out " +
                 position(rank, buffer, element);
    return true;
  };
  for (uint64_t away = 1; away < b.elements; ++away) {
    if (index >= away && take(rank, set, index - away)) return out;
    if (index + away < b.elements && take(rank, set, index + away)) return out;
  }
  for (int k = 0; k < job_.n_sets; ++k) {
    for (int owner = 0; owner < job_.n_ranks; ++owner) {
      for (uint64_t e = 0; e < b.elements; ++e) {
        if (take(owner, (set + k) % job_.n_sets, e)) return out;
      }
    }
  }
  out.message = "nothing has stored to " + b.name + " of any rank";
  out.advice = "store to the buffers of the set that sculler_run is called with";
  return out;
}

std::optional<verify::Device::Blame> VmDevice::blame_input(int rank, int set) {
  for (std::size_t i = 0; i < job_.buffers.size(); ++i) {
    const verify::BufferSpec& b = job_.buffers[i];
    if (b.role != verify::Role::kInput) continue;
    const int buffer = static_cast<int>(i);
    Finding::Side writer;
    for (uint64_t e = 0; e < b.elements; ++e) {
      if (!writer_of(rank, set, buffer, e, &writer)) continue;
      Blame out;
      out.where = place_of(machine_, writer.code);
      out.message = position(rank, buffer, static_cast<int64_t>(e)) + " was written by " +
                    by(machine_, writer);
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace sculler::emu
