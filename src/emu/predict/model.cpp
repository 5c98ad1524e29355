#include "emu/predict/model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sculler::emu {

Growth growth(const task::Work& emulated, const task::Work& real) {
  const auto ratio = [](double a, double b) { return a > 0 && b > 0 ? b / a : 0.0; };
  Growth out;
  out.flops = ratio(emulated.flops, real.flops);
  out.hbm = ratio(emulated.hbm_bytes, real.hbm_bytes);
  out.link = ratio(emulated.link_bytes, real.link_bytes);
  // A task without one kind of work grows by another.
  const double fallback = std::max({out.flops, out.hbm, out.link});
  for (double* value : {&out.flops, &out.hbm, &out.link}) {
    if (*value == 0) *value = fallback > 0 ? fallback : 1;
  }
  out.hbm_bytes = real.hbm_bytes;
  out.emulated_flops = emulated.flops;
  return out;
}

namespace {

// Kernels that move next to nothing are synchronisation: they do not grow with the problem, and
// what they execute is mostly waiting.
bool only_synchronises(const GridCounters& c) {
  const uint64_t data =
      c.global_load_bytes + c.global_store_bytes + c.peer_load_bytes + c.peer_store_bytes;
  return c.tensor_flops == 0 && c.peer_store_bytes + c.peer_load_bytes < 4096 &&
         c.global_store_bytes < 4096 && (data < 65536 || c.blocks <= 2);
}

void kernel(const TraceGrid& grid, double instructions, const Growth& growth, const Rates& rates,
            Demand& out) {
  const GridCounters& c = grid.counters;
  const auto number = [](uint64_t value) { return static_cast<double>(value); };
  const double peer = number(c.peer_load_bytes + c.peer_store_bytes + c.peer_control_bytes);
  out.kind = Demand::Kind::kKernel;
  out.fixed = rates.host.kernel_start;
  // Whoever writes to a peer says so to it, and waits for what the peer writes.
  out.meets = peer > 0;
  if (out.meets) out.fixed += rates.host.barrier;
  const double per_sm =
      std::max(1.0, std::floor(number(c.resident_limit) / std::max(1u, rates.sms)));
  if (only_synchronises(c)) {
    out.sms = std::min<double>(std::max(1u, c.blocks), rates.sms);
    return;
  }
  const bool dense = c.tensor_flops > 0 ||
                     number(c.fp_flops) > 8 * number(c.global_load_bytes + c.global_store_bytes);
  // Who does a good part of the task's arithmetic grows with it, also where each operand is loaded
  // anew for it (attention, a warp a row): loads and instructions are all in the main loop then.
  const bool computes =
      dense || (growth.emulated_flops > 0 && number(c.fp_flops) >= growth.emulated_flops / 16);
  const double main = computes ? growth.flops : growth.hbm;   // the main loop
  const double stored = peer > 0 ? growth.link : growth.hbm;  // the epilogue
  const double stores = number(c.global_store_bytes + c.peer_store_bytes);
  // A main loop has about 4.5 PTX instructions an mma or a warp's fused multiply-add (addresses,
  // loads, the copies of the next stage); the rest is set-up and epilogue, once a tile.
  constexpr double kMmaFlops = 2.0 * 16 * 8 * 16;
  constexpr double kFmaFlops = 2.0 * 32;
  const double loop = 4.5 * (number(c.tensor_flops) / kMmaFlops + number(c.fp_flops) / kFmaFlops);
  // Where data only moves, about six PTX instructions an access of 4 bytes a lane. What else blocks
  // that wait for peers execute (barriers, who stores where) they execute at any size.
  constexpr double kMoveBytes = 4.0 * 32;
  const double payload = number(c.global_store_bytes + c.peer_store_bytes + c.peer_load_bytes);
  // Own loads beyond that are of tables that every thread reads.
  const double moved_loop =
      6 * (payload + std::min(payload, number(c.global_load_bytes))) / kMoveBytes;
  const bool fixed_rest = !computes && peer > 0;
  const double in_loop = dense        ? std::min(instructions, loop)
                         : fixed_rest ? std::min(instructions, moved_loop)
                                      : instructions;
  const double instructions_real =
      in_loop * main + (instructions - in_loop) * (fixed_rest ? 1.0 : stored);
  const double blocks =
      std::max(1.0, number(c.blocks) *
                        (computes ? growth.flops / std::max(1.0, growth.flops / stored) : stored));
  // The last wave is as long as a full one.
  const double slots = per_sm * rates.sms;
  const double waves = blocks / slots;
  const double tail = c.blocks > 0 && waves > 0 ? std::ceil(waves) / waves : 1.0;
  const double quantized = waves > 1 ? tail : 1.0;
  const double share = std::min(1.0, blocks / rates.sms);  // of the SMs in use
  out.sms = std::min<double>(blocks, rates.sms);

  // A staged epilogue writes a tile once and reads it for every copy that it stores.
  const double staged = std::min(number(c.shared_bytes) / 2, stores + number(c.global_store_bytes));
  const double shared_in_loop = computes ? number(c.shared_bytes) - staged : number(c.shared_bytes);

  struct Unit {
    const char* name;
    double seconds;
  };
  const double loads = number(c.global_load_bytes) * main;
  const double hbm_bytes =
      std::min(loads + number(c.global_store_bytes) * stored,
               growth.hbm_bytes > 0 ? growth.hbm_bytes : std::numeric_limits<double>::infinity());
  const double moved = number(c.global_load_bytes + c.peer_load_bytes) + stores;
  const double read_share = moved > 0 ? number(c.global_load_bytes + c.peer_load_bytes) / moved : 1;
  const double transactions =
      number(c.global_transactions) * 32 * (read_share * main + (1 - read_share) * stored);
  // wgmma and TMA work beside the warps, at the rate of the library's GEMM; what the warps execute
  // is mostly waiting, and is hidden.
  const bool asynchronous = 2 * c.wgmma_flops > c.tensor_flops;
  const double warps = asynchronous ? 0.0 : 1.0;
  const double tensor = asynchronous ? rates.gemm : rates.tensor;
  const Unit units[] = {
      {"tensor", number(c.tensor_flops) * growth.flops / (tensor * share)},
      {"fp32", warps * number(c.fp_flops) * main / (rates.fp32 * share)},
      {"issue", warps * instructions_real / (rates.issue * share)},
      {"shared", warps *
                     (shared_in_loop * main + (number(c.shared_bytes) - shared_in_loop) * stored) /
                     (rates.shared * share)},
      {"l2", transactions / (rates.l2 * share)},
      {"hbm", hbm_bytes / (rates.hbm * std::min(1.0, 2 * share))},
  };
  const Unit* largest =
      std::max_element(std::begin(units), std::end(units),
                       [](const Unit& a, const Unit& b) { return a.seconds < b.seconds; });
  const double inside = largest->seconds * quantized;
  out.bound = largest->name;
  double over_link = 0;
  if (peer > 0) {
    const double reach = std::min(1.0, 0.35 + 0.65 * out.sms / rates.store_sms);
    over_link = number(c.peer_store_bytes) * growth.link / (rates.store * reach) +
                number(c.peer_load_bytes) * growth.link / (rates.load * reach);
  }
  const double longer = std::max(inside, over_link);
  const double shorter = std::min(inside, over_link);
  // A kernel that only moves data hides its memory traffic behind the link.
  const double hidden = !computes      ? 1.0
                        : asynchronous ? rates.bulk_overlap
                                       : rates.epilogue_overlap;
  out.work = longer + (1 - hidden) * shorter;
  if (over_link > inside) out.bound = "link";
  if (out.work > 0 && peer > 0)
    out.link = (number(c.peer_store_bytes) + number(c.peer_load_bytes)) * growth.link / out.work;
}

}  // namespace

Demand demand(const Trace& trace, const TraceOp& op, double instructions, const Growth& growth,
              const Rates& rates) {
  Demand out;
  const auto bytes = static_cast<double>(op.bytes);
  switch (op.kind) {
    case OpKind::kKernel:
      out.host = rates.host.kernel;
      if (op.grid < trace.grids.size())
        kernel(trace.grids[op.grid], instructions, growth, rates, out);
      break;
    case OpKind::kGemm: {
      out.kind = Demand::Kind::kGemm;
      out.host = rates.host.gemm;
      out.fixed = rates.gemm_start;
      out.sms = rates.sms;
      const double flops = static_cast<double>(op.flops) * growth.flops /
                           (op.float32 ? rates.gemm_float32 : rates.gemm);
      const double memory =
          std::min(
              static_cast<double>(op.hbm_bytes) * growth.hbm,
              growth.hbm_bytes > 0 ? growth.hbm_bytes : std::numeric_limits<double>::infinity()) /
          rates.hbm;
      out.work = std::max(flops, memory);
      out.bound = flops >= memory ? "tensor" : "hbm";
      break;
    }
    case OpKind::kCollective: {
      out.kind = Demand::Kind::kNccl;
      out.host = rates.host.collective;
      out.sms = rates.nccl_sms;
      const double rate = op.symmetric ? rates.nccl_symmetric : rates.nccl;
      out.fixed = op.symmetric ? rates.nccl_symmetric_latency : rates.nccl_latency;
      out.work = bytes * growth.link / rate;
      out.link = op.bytes > 0 ? rate : 0;
      out.bound = "link";
      break;
    }
    case OpKind::kCopy:
      out.host = rates.host.copy;
      out.fixed = rates.host.copy_start;
      if (op.route == CopyRoute::kPeer) {
        out.kind = Demand::Kind::kPeerCopy;
        out.work = bytes * growth.link / rates.copy;
        out.link = rates.copy;
        // Reading or writing, the bytes leave one port and enter the other; both directions are
        // alike here.
        out.from = op.rank;
        out.to = op.peer;
        out.bound = "link";
      } else {
        out.kind = Demand::Kind::kOtherCopy;
        out.work = bytes * growth.hbm /
                   (op.route == CopyRoute::kHost ? rates.host_copy : rates.local_copy);
        out.bound = "hbm";
      }
      break;
    case OpKind::kMemset:
      out.kind = Demand::Kind::kOtherCopy;
      out.host = rates.host.memset;
      out.fixed = rates.host.copy_start;
      out.work = bytes * growth.hbm / rates.hbm;
      out.bound = "hbm";
      break;
    case OpKind::kEventRecord: out.host = rates.host.event; break;
    case OpKind::kEventWait:
    case OpKind::kWriteValue:
    case OpKind::kWaitValue: out.host = rates.host.wait; break;
    case OpKind::kGraphLaunch: out.host = rates.host.graph; break;
    case OpKind::kHostFunction:
      out.host = rates.host.kernel;
      out.fixed = rates.host.synchronize;
      break;
    case OpKind::kFree:
    case OpKind::kHostWait:
    case OpKind::kMark: break;
  }
  if (op.from_graph) out.host = 0;
  return out;
}

}  // namespace sculler::emu
