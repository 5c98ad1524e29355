// Device communicators as NCCL 2.28.9 lays them out: resource buffers in one symmetric window,
// handles in units of 128 bytes; barriers and LL all-to-all as its requirement functions say. The
// ranks of a node are load/store accessible to each other; GIN reaches all (gin.cpp).
#include <algorithm>
#include <cstring>

#include "library.h"

namespace sculler::emu::nccl {
namespace {

constexpr uint64_t kHandleUnit = 128;  // ncclGetResourceBufferOffset

ncclTeam_t world_team(const ncclComm& comm) { return {comm.info.n_ranks, comm.info.rank, 1}; }
ncclTeam_t lsa_team(const ncclComm& comm) {
  return {comm.info.lsa_size, comm.info.rank % comm.info.lsa_size, 1};
}
ncclTeam_t rail_team(const ncclComm& comm) {
  const int size = comm.info.lsa_size;
  return {comm.info.n_ranks / size, comm.info.rank / size, size};
}

// Where a requirement's buffer lies in the resource window; `end` moves behind it.
uint32_t place(uint64_t& end, const ncclDevResourceRequirements_t& need) {
  const uint64_t align = std::max<uint64_t>(kHandleUnit, need.bufferAlign);
  end = (end + align - 1) / align * align;
  const auto handle = static_cast<uint32_t>(end / kHandleUnit);
  end += need.bufferSize;
  return handle;
}

ncclResult_t refuse(const char* what) {
  client::unsupported("ncclDevCommCreate", what);
  return ncclInvalidUsage;
}

}  // namespace

SCULLER_EXPORT_C ncclTeam_t ncclTeamWorld(ncclComm_t comm) {
  return know(comm) ? world_team(*comm) : ncclTeam_t{};
}
SCULLER_NCCL_ALIAS(ncclTeamWorld);
SCULLER_EXPORT_C ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  return know(comm) ? lsa_team(*comm) : ncclTeam_t{};
}
SCULLER_NCCL_ALIAS(ncclTeamLsa);
SCULLER_EXPORT_C ncclTeam_t ncclTeamRail(ncclComm_t comm) {
  return know(comm) ? rail_team(*comm) : ncclTeam_t{};
}
SCULLER_NCCL_ALIAS(ncclTeamRail);
SCULLER_EXPORT_C int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return know(comm) ? comm->info.rank + (rank - team.rank) * team.stride : -1;
}
SCULLER_NCCL_ALIAS(ncclTeamRankToWorld);
SCULLER_EXPORT_C int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  return know(comm) ? lsa_team(*comm).rank + (rank - team.rank) * team.stride : -1;
}
SCULLER_NCCL_ALIAS(ncclTeamRankToLsa);

SCULLER_EXPORT_C ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int n_barriers,
                                                              ncclLsaBarrierHandle_t* handle,
                                                              ncclDevResourceRequirements_t* need) {
  if (handle == nullptr || need == nullptr || n_barriers < 0) return ncclInvalidArgument;
  *need = {};
  // Two epochs and a multicast inbox a barrier, then an inbox a barrier and peer.
  need->bufferSize =
      static_cast<size_t>(3 * n_barriers + n_barriers * team.nRanks) * sizeof(uint32_t);
  need->bufferAlign = alignof(uint32_t);
  need->outBufferHandle = &handle->bufHandle;
  handle->nBarriers = n_barriers;
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclLsaBarrierCreateRequirement);

SCULLER_EXPORT_C int ncclLLA2ACalcSlots(int max_elements, int max_element_bytes) {
  return max_elements * ((max_element_bytes + 7) / 8);
}
SCULLER_NCCL_ALIAS(ncclLLA2ACalcSlots);
SCULLER_EXPORT_C ncclResult_t ncclLLA2ACreateRequirement(int n_blocks, int n_slots,
                                                         ncclLLA2AHandle_t* handle,
                                                         ncclDevResourceRequirements_t* need) {
  if (handle == nullptr || need == nullptr || n_blocks < 0 || n_slots < 0)
    return ncclInvalidArgument;
  *need = {};
  handle->nSlots = static_cast<uint32_t>(n_slots);
  // A line for the epoch and two halves of slots a block.
  need->bufferSize = static_cast<size_t>(n_blocks) * (1 + 2 * static_cast<size_t>(n_slots)) * 16;
  need->bufferAlign = 16;
  need->outBufferHandle = &handle->bufHandle;
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclLLA2ACreateRequirement);

SCULLER_EXPORT_C ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t,
                                                              int n_barriers,
                                                              ncclGinBarrierHandle_t* handle,
                                                              ncclDevResourceRequirements_t* need) {
  if (comm == nullptr || handle == nullptr || need == nullptr || n_barriers < 0)
    return ncclInvalidArgument;
  *need = {};
  // An epoch a barrier and context, and a signal a barrier.
  need->bufferSize = static_cast<size_t>(n_barriers) * NCCL_GIN_MAX_CONTEXTS * sizeof(uint32_t);
  need->bufferAlign = alignof(uint32_t);
  need->outBufferHandle = &handle->bufHandle;
  need->ginSignalCount = n_barriers;
  need->outGinSignalStart = &handle->signal0;
  return ncclSuccess;
}
SCULLER_NCCL_ALIAS(ncclGinBarrierCreateRequirement);

SCULLER_EXPORT_C ncclResult_t ncclDevCommCreate(ncclComm_t comm,
                                                const ncclDevCommRequirements_t* need,
                                                ncclDevComm_t* out) {
  if (!know(comm) || need == nullptr || out == nullptr) return ncclInvalidArgument;
  if (need->ginSignalCount < 0 || need->ginCounterCount < 0) return ncclInvalidArgument;
  if (need->lsaMultimem) return refuse("lsaMultimem: multicast is off");
  for (const ncclTeamRequirements_t* team = need->teamRequirementsList; team != nullptr;
       team = team->next) {
    if (team->multimem) return refuse("multimem for a team: multicast is off");
  }

  uint64_t end = 0;
  ncclDevComm_t made{};
  ncclDevResourceRequirements_t barriers{};
  ncclLsaBarrierCreateRequirement(lsa_team(*comm),
                                  std::max(need->barrierCount, need->lsaBarrierCount),
                                  &made.lsaBarrier, &barriers);
  made.lsaBarrier.bufHandle = place(end, barriers);
  const int n_rail = std::max({need->barrierCount, need->railGinBarrierCount, 0});
  ncclDevResourceRequirements_t rail{};
  ncclGinBarrierCreateRequirement(comm, rail_team(*comm), n_rail, &made.railGinBarrier, &rail);
  made.railGinBarrier.bufHandle = place(end, rail);
  for (ncclDevResourceRequirements_t* r = need->resourceRequirementsList; r != nullptr;
       r = r->next) {
    if (r->ginSignalCount > 0 || r->ginCounterCount > 0) {
      return refuse(
          "GIN signals, counters or barriers in resourceRequirementsList: NCCL 2.28.9 drops "
          "them; ask by ginSignalCount, ginCounterCount, railGinBarrierCount or barrierCount");
    }
    const uint32_t handle = place(end, *r);
    if (r->outBufferHandle != nullptr) *r->outBufferHandle = handle;
  }
  if (end > UINT32_MAX) return ncclInvalidArgument;

  wire::DevCommCreate request;
  request.comm = comm->id;
  request.resource_bytes = std::max<uint64_t>(end, kHandleUnit);
  request.struct_bytes = sizeof(ncclWindow_vidmem);
  // As NCCL switches it on.
  request.gin = comm->info.n_ranks > comm->info.lsa_size || need->ginForceEnable ||
                need->ginSignalCount > 0 || need->ginCounterCount > 0;
  request.gin_signals = static_cast<uint32_t>(need->ginSignalCount);
  request.gin_counters = static_cast<uint32_t>(need->ginCounterCount);
  request.gin_barriers = static_cast<uint32_t>(n_rail);
  const bool gin = request.gin;
  const ncclDevCommRequirements_t asked = *need;
  wire::AddressReply reply;
  if (const int code = client::call(request, reply); code != 0) return result(code);
  const uint64_t handle = reply.address;
  const ncclTeam_t lsa = lsa_team(*comm);
  made.rank = comm->info.rank;
  made.nRanks = comm->info.n_ranks;
  made.lsaRank = lsa.rank;
  made.lsaSize = lsa.nRanks;
  made.nRanks_rcp32 = ::nccl::utility::idivRcp32(static_cast<uint32_t>(made.nRanks));
  made.lsaSize_rcp32 = ::nccl::utility::idivRcp32(static_cast<uint32_t>(made.lsaSize));
  made.resourceWindow = reinterpret_cast<ncclWindow_t>(handle);
  *out = made;
  return after_group([=] {
    if (const ncclResult_t code = fill_window(handle, out->resourceWindow_inlined);
        code != ncclSuccess)
      return code;
    if (comm->table == 0) {
      const ncclResult_t code = allocate_internal(8 * sizeof(ncclDevCommWindowTable), comm->table);
      if (code != ncclSuccess) return code;
    }
    if (gin) {
      if (const ncclResult_t code = fill_gin(*comm, handle, asked, *out); code != ncclSuccess)
        return code;
    }
    out->windowTable = reinterpret_cast<ncclDevCommWindowTable*>(comm->table);
    return write_table(*comm);
  });
}
SCULLER_NCCL_ALIAS(ncclDevCommCreate);

SCULLER_EXPORT_C ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t* dev) {
  if (comm == nullptr || dev == nullptr || dev->resourceWindow == nullptr)
    return ncclInvalidArgument;
  wire::DevCommDestroy request;
  request.comm = comm->id;
  request.window = number(dev->resourceWindow);
  return result(client::call(request));
}
SCULLER_NCCL_ALIAS(ncclDevCommDestroy);

}  // namespace sculler::emu::nccl
