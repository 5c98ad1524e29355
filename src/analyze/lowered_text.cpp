#include "analyze/lowered_text.h"

#include "analyze/lowered_calls.h"
#include "analyze/lowered_kernels.h"
#include "analyze/lowered_pieces.h"

namespace sculler::analyze {
namespace {

bool has(const TextNeeds& needs, Collective kind) { return needs.kinds.count(kind) > 0; }

std::string infrastructure(const TextNeeds& needs) {
  const bool device = !needs.kinds.empty();
  const bool exchange = has(needs, Collective::kExchange);
  std::string out =
      "// ---- Windows and device communicator: made by the lowering, once a process.\n";
  for (const std::string_view header : {"sculler/candidate.h"})
    out += "#include \"" + std::string(header) + "\"\n";
  if (device) {
    for (const std::string& type : needs.types) {
      if (type == "__half") out += "#include <cuda_fp16.h>\n";
      if (type == "__nv_bfloat16") out += "#include <cuda_bf16.h>\n";
    }
  }
  out += "#include <cuda_runtime.h>\n#include <nccl.h>\n#include <nccl_device.h>\n\n";
  out += "#include <cstddef>\n#include <cstdint>\n#include <cstdio>\n";
  if (device) out += "#include <functional>\n#include <utility>\n";
  out += "#include <vector>\n\n";
  out += pieces::kTunables;
  out += "namespace lowered {\n\n";
  if (exchange) out += pieces::kExchangeTypes;
  out += pieces::kContextBegin;
  if (device) {
    out += "  int n_ranks = 0;\n";
    if (needs.groups) out += pieces::kContextGroups;
    if (needs.streams) out += pieces::kContextStreams;
    if (exchange) out += pieces::kContextExchange;
  }
  out += pieces::kContextEnd;
  if (exchange) out += pieces::kPublish;
  out += exchange ? pieces::kRememberAndPublish : pieces::kRemember;
  if (needs.scratch) out += pieces::kScratch;
  if (needs.registers) out += pieces::kRegisters;
  out += pieces::kSetupBegin;
  if (device) out += "  context.n_ranks = rank->n_ranks;\n";
  if (device && needs.streams)
    out +=
        "  if (cudaEventCreateWithFlags(&context.done, cudaEventDisableTiming) != cudaSuccess)\n"
        "    return SCULLER_ERROR;\n";
  if (exchange) out += pieces::kSetupExchange;
  out += pieces::kSetupEnd;
  if (device && needs.streams) out += "  (void)cudaEventDestroy(context.done);\n";
  if (exchange) out += pieces::kTeardownExchange;
  out += pieces::kTeardownEnd;
  out += "\n}  // namespace lowered\n\n";
  return out;
}

std::string collectives(const TextNeeds& needs) {
  const bool reduces = has(needs, Collective::kAllReduce) ||
                       has(needs, Collective::kReduceScatter) || has(needs, Collective::kReduce);
  const bool copies = has(needs, Collective::kAllGather) || has(needs, Collective::kBroadcast) ||
                      has(needs, Collective::kAllToAll) || has(needs, Collective::kGather) ||
                      has(needs, Collective::kScatter) || has(needs, Collective::kExchange);
  std::string out = "namespace lowered {\n\n";
  out += pieces::kPlace;
  if (copies) out += pieces::kCopy;
  if (reduces) {
    out += pieces::kWide;
    for (const std::string& type : needs.types) {
      if (type == "__half") out += pieces::kWideHalf;
      if (type == "__nv_bfloat16") out += pieces::kWideBf16;
    }
    for (const std::string& operation : needs.operations) {
      if (operation == "Sum") out += pieces::kSum;
      if (operation == "Product") out += pieces::kProduct;
      if (operation == "Max") out += pieces::kMax;
      if (operation == "Min") out += pieces::kMin;
      if (operation == "Average") out += pieces::kAverage;
    }
    out += pieces::kReduceCore;
  }
  if (has(needs, Collective::kAllGather)) out += pieces::kAllGatherKernel;
  if (has(needs, Collective::kAllReduce)) out += pieces::kAllReduceKernel;
  if (has(needs, Collective::kReduceScatter)) out += pieces::kReduceScatterKernel;
  if (has(needs, Collective::kReduce)) out += pieces::kReduceKernel;
  if (has(needs, Collective::kBroadcast)) out += pieces::kBroadcastKernel;
  if (has(needs, Collective::kAllToAll)) out += pieces::kAllToAllKernel;
  if (has(needs, Collective::kGather)) out += pieces::kGatherKernel;
  if (has(needs, Collective::kScatter)) out += pieces::kScatterKernel;
  if (has(needs, Collective::kExchange)) out += pieces::kExchangeKernel;
  out += pieces::kFind;
  if (copies) out += pieces::kSizeOf;
  out += pieces::kStartBegin;
  if (needs.streams) out += pieces::kStartOrder;
  out += "  kernel();\n";
  if (needs.streams) out += pieces::kStartRecord;
  out += pieces::kStartEnd;
  out += needs.groups ? pieces::kLaunchGrouped : pieces::kLaunchPlain;
  if (has(needs, Collective::kAllGather)) out += pieces::kAllGather;
  if (has(needs, Collective::kAllReduce)) out += pieces::kAllReduce;
  if (has(needs, Collective::kReduceScatter)) out += pieces::kReduceScatter;
  if (has(needs, Collective::kReduce)) out += pieces::kReduce;
  if (has(needs, Collective::kBroadcast)) out += pieces::kBroadcast;
  if (has(needs, Collective::kAllToAll)) out += pieces::kAllToAll;
  if (has(needs, Collective::kGather)) out += pieces::kGather;
  if (has(needs, Collective::kScatter)) out += pieces::kScatter;
  if (has(needs, Collective::kExchange)) out += pieces::kSendRecv;
  if (needs.groups) {
    out += pieces::kGroup;
    if (has(needs, Collective::kExchange)) out += pieces::kGroupExchange;
  }
  return out + "\n}  // namespace lowered\n";
}

}  // namespace

LoweredText lowered_text(const TextNeeds& needs) {
  LoweredText out;
  out.frozen = infrastructure(needs);
  if (!needs.kinds.empty()) out.mutable_ = collectives(needs);
  return out;
}

}  // namespace sculler::analyze
