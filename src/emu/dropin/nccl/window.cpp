// Symmetric windows: the VM places the structure, this library fills it.
#include <algorithm>
#include <array>
#include <cstring>

#include "library.h"

namespace sculler::emu::nccl {

ncclResult_t write_internal(uint64_t address, const void* data, std::size_t bytes) {
  wire::WriteInternal request;
  request.address = address;
  const auto* from = static_cast<const uint8_t*>(data);
  request.data.assign(from, from + bytes);
  return result(client::call(request));
}

ncclResult_t allocate_internal(uint64_t bytes, uint64_t& address) {
  wire::AllocateInternal request;
  request.bytes = bytes;
  wire::AddressReply where;
  const int code = client::call(request, where);
  address = where.address;
  return result(code);
}

ncclResult_t fill_window(uint64_t handle, ncclWindow_vidmem& out) {
  wire::WindowInfo request;
  request.window = handle;
  wire::WindowReply info;
  if (const int code = client::call(request, info); code != 0) return result(code);
  out = {};
  out.lsaFlatBase = reinterpret_cast<char*>(info.flat_base);
  out.lsaRank = info.lsa_rank;
  out.worldRank = info.rank;
  for (ncclGinWindow_t& window : out.ginWins) window = reinterpret_cast<ncclGinWindow_t>(info.id);
  out.stride4G = static_cast<uint32_t>(info.stride >> 32);
  return write_internal(handle, &out, sizeof out);
}

ncclResult_t write_table(ncclComm& comm) {
  if (comm.table == 0) return ncclSuccess;
  // Tables of 32 entries in a chain, all in one allocation.
  using Table = ncclDevCommWindowTable;
  constexpr std::size_t kEntries = std::size(Table{}.entries);
  constexpr std::size_t kTables = 8;
  std::array<Table, kTables> tables{};
  if (comm.windows.size() > kEntries * kTables) return ncclInternalError;
  for (std::size_t i = 0; i < comm.windows.size(); ++i) {
    tables[i / kEntries].entries[i % kEntries] = {comm.windows[i].base, comm.windows[i].bytes,
                                                  comm.windows[i].window};
  }
  for (std::size_t t = 0; t + 1 < kTables; ++t) {
    tables[t].next = reinterpret_cast<Table*>(comm.table + (t + 1) * sizeof(Table));
  }
  return write_internal(comm.table, tables.data(), sizeof tables);
}

SCULLER_EXPORT_C ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                                     ncclWindow_t* out, int flags) {
  if (comm == nullptr || out == nullptr) return ncclInvalidArgument;
  wire::WindowRegister request;
  request.comm = comm->id;
  request.address = number(buffer);
  request.bytes = bytes;
  request.flags = static_cast<uint32_t>(flags);
  request.struct_bytes = sizeof(ncclWindow_vidmem);
  wire::AddressReply reply;
  if (const int code = client::call(request, reply); code != 0) return result(code);
  const uint64_t handle = reply.address;
  *out = reinterpret_cast<ncclWindow_t>(handle);
  if (handle == 0) return ncclSuccess;
  return after_group([=] {
    ncclWindow_vidmem window{};
    if (const ncclResult_t code = fill_window(handle, window); code != ncclSuccess) return code;
    comm->windows.push_back({number(buffer), bytes, reinterpret_cast<ncclWindow_t>(handle)});
    return write_table(*comm);
  });
}
SCULLER_NCCL_ALIAS(ncclCommWindowRegister);

SCULLER_EXPORT_C ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (comm == nullptr) return ncclInvalidArgument;
  if (window == nullptr) return ncclSuccess;
  wire::WindowDeregister request;
  request.comm = comm->id;
  request.window = number(window);
  if (const int code = client::call(request); code != 0) return result(code);
  std::erase_if(comm->windows, [window](const ncclComm::Window& w) { return w.window == window; });
  return write_table(*comm);
}
SCULLER_NCCL_ALIAS(ncclCommWindowDeregister);

}  // namespace sculler::emu::nccl
