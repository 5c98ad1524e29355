#include "analyze/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/strings.h"

namespace sculler::analyze {
namespace {

constexpr std::array kSignatures = {
    //         name, kind, arguments, send, receive, count, type, operation, root, comm, stream
    Signature{"ncclAllGather", Collective::kAllGather, 6, 0, 1, 2, 3, -1, -1, 4, 5, "all_gather"},
    Signature{"ncclAllReduce", Collective::kAllReduce, 7, 0, 1, 2, 3, 4, -1, 5, 6, "all_reduce"},
    Signature{"ncclReduceScatter", Collective::kReduceScatter, 7, 0, 1, 2, 3, 4, -1, 5, 6,
              "reduce_scatter"},
    Signature{"ncclReduce", Collective::kReduce, 8, 0, 1, 2, 3, 4, 5, 6, 7, "reduce_to"},
    Signature{"ncclBroadcast", Collective::kBroadcast, 7, 0, 1, 2, 3, -1, 4, 5, 6, "broadcast"},
    Signature{"ncclBcast", Collective::kBroadcast, 6, 0, 0, 1, 2, -1, 3, 4, 5, "broadcast"},
    Signature{"ncclAlltoAll", Collective::kAllToAll, 6, 0, 1, 2, 3, -1, -1, 4, 5, "all_to_all"},
    Signature{"ncclGather", Collective::kGather, 7, 0, 1, 2, 3, -1, 4, 5, 6, "gather"},
    Signature{"ncclScatter", Collective::kScatter, 7, 0, 1, 2, 3, -1, 4, 5, 6, "scatter"},
    Signature{"ncclSend", Collective::kExchange, 6, 0, -1, 1, 2, -1, 3, 4, 5, "send"},
    Signature{"ncclRecv", Collective::kExchange, 6, -1, 0, 1, 2, -1, 3, 4, 5, "receive"},
};

const std::map<std::string, std::string, std::less<>> kTypes = {
    {"ncclInt8", "int8_t"},    {"ncclChar", "int8_t"},     {"ncclUint8", "uint8_t"},
    {"ncclInt32", "int32_t"},  {"ncclInt", "int32_t"},     {"ncclUint32", "uint32_t"},
    {"ncclInt64", "int64_t"},  {"ncclUint64", "uint64_t"}, {"ncclFloat16", "__half"},
    {"ncclHalf", "__half"},    {"ncclFloat32", "float"},   {"ncclFloat", "float"},
    {"ncclFloat64", "double"}, {"ncclDouble", "double"},   {"ncclBfloat16", "__nv_bfloat16"},
};
const std::map<std::string, std::string, std::less<>> kOperations = {{"ncclSum", "Sum"},
                                                                     {"ncclProd", "Product"},
                                                                     {"ncclMax", "Max"},
                                                                     {"ncclMin", "Min"},
                                                                     {"ncclAvg", "Average"}};

Status read_sites(Program& p) {
  const TextModel& m = p.model;
  for (std::size_t i = 0; i < m.directives().size(); ++i) {
    const auto& token = m.directives()[i];
    if (signature_of(token.text) == nullptr && token.text != "ncclGroupStart" &&
        token.text != "ncclGroupEnd")
      continue;
    return fail(Error{ErrorCode::kUnsupported,
                      fmt::format("a macro hides {}", token.text),
                      fmt::format("{}:{}", p.origin, token.line),
                      {},
                      "write the call where it is meant, or make the macro a function"});
  }
  for (std::size_t i = 0; i < m.code().size(); ++i) {
    const std::string& word = m.code()[i].text;
    if (!m.identifier(i)) continue;
    if (word.starts_with("ncclCommInit") || word == "ncclCommSplit" || word == "ncclCommShrink" ||
        word == "ncclCommGrow")
      return p.refuse(i,
                      fmt::format("{} makes another communicator: which ranks meet in a collective "
                                  "cannot be told",
                                  word),
                      "use the communicator of sculler_rank alone");
    if (word.starts_with("ncclRedOpCreate"))
      return p.refuse(i, fmt::format("{} makes a reduction of its own", word),
                      "use sum, product, max, min or average, and scale in a kernel");
    const Signature* signature = signature_of(word);
    if (signature == nullptr) continue;
    if (!m.free_call(i))
      return p.refuse(
          i, fmt::format("{} is not called here by its name: its calls cannot be told", word),
          "call it where it is meant");
    auto calls = m.calls(word);
    const auto call =
        std::find_if(calls.begin(), calls.end(), [&](const Call& c) { return c.name == i; });
    if (call == calls.end() || call->function < 0 ||
        static_cast<int>(call->arguments.size()) != signature->n_arguments)
      return p.refuse(
          i,
          fmt::format("the {} arguments of {} cannot be told apart", signature->n_arguments, word),
          "write each as a plain expression");
    Site site;
    site.signature = signature;
    site.call = *call;
    if (signature->operation >= 0) {
      const auto type = kTypes.find(resolved(p, site.argument(signature->type)));
      if (type == kTypes.end())
        return p.refuse(i,
                        fmt::format("{}: the type {} is no constant that can be added here", word,
                                    m.joined(site.argument(signature->type))),
                        "name one of NCCL's integer or floating types, but for 8-bit floats");
      const auto operation = kOperations.find(resolved(p, site.argument(signature->operation)));
      if (operation == kOperations.end())
        return p.refuse(i,
                        fmt::format("{}: the reduction {} is not one of NCCL's own", word,
                                    m.joined(site.argument(signature->operation))),
                        "name ncclSum, ncclProd, ncclMax, ncclMin or ncclAvg");
      site.type = type->second;
      site.operation = operation->second;
    }
    p.sites.push_back(std::move(site));
  }
  if (p.sites.empty())
    return fail(Error{ErrorCode::kUnsupported,
                      "there is no host collective to lower",
                      p.origin,
                      {},
                      "give a program that calls NCCL from the host"});
  return {};
}

Status read_groups(Program& p) {
  std::vector<std::pair<Call, bool>> marks;  // true: a start
  for (Call& call : p.model.calls("ncclGroupStart")) marks.emplace_back(std::move(call), true);
  for (Call& call : p.model.calls("ncclGroupEnd")) marks.emplace_back(std::move(call), false);
  std::sort(marks.begin(), marks.end(),
            [](const auto& a, const auto& b) { return a.first.name < b.first.name; });
  std::vector<int> open;
  for (auto& [call, start] : marks) {
    if (start) {
      Group group;
      group.start = std::move(call);
      group.outer = open.empty() ? static_cast<int>(p.groups.size()) : open.front();
      open.push_back(static_cast<int>(p.groups.size()));
      p.groups.push_back(std::move(group));
      continue;
    }
    if (open.empty() ||
        p.groups[static_cast<std::size_t>(open.back())].start.function != call.function)
      return p.refuse(call.name, "ncclGroupEnd without a start in the same function",
                      "start and end a group in one function");
    Group& group = p.groups[static_cast<std::size_t>(open.back())];
    group.end = std::move(call);
    open.pop_back();
    if (p.model.around(group.start.name) != p.model.around(group.end.name))
      return p.refuse(group.end.name, "a group ends under another condition than it started",
                      "start and end it side by side");
  }
  if (!open.empty())
    return p.refuse(p.groups[static_cast<std::size_t>(open.back())].start.name,
                    "ncclGroupStart without an end in the same function",
                    "start and end a group in one function");
  for (Site& site : p.sites) {
    for (std::size_t g = 0; g < p.groups.size(); ++g) {
      Group& group = p.groups[g];
      if (group.outer != static_cast<int>(g) || site.call.name < group.start.name ||
          site.call.name > group.end.name)
        continue;
      site.group = static_cast<int>(g);
      group.communicates = true;
      group.exchanges |= site.point_to_point();
    }
  }
  return {};
}

Status read_allocations(Program& p) {
  const TextModel& m = p.model;
  std::vector<Range> buffers;
  for (const Site& site : p.sites) {
    buffers.push_back(site.argument(site.signature->send));
    buffers.push_back(site.argument(site.signature->receive));
  }
  const auto sources = p.names.sources(buffers);
  const auto communicates = [&](Range pointer) {
    const auto names = names_in(m, pointer);
    return std::any_of(names.begin(), names.end(), [&](const Name& name) {
      return !name.in_subscript && sources.count(name.key) > 0;
    });
  };
  for (const std::string_view other :
       {"cudaMallocAsync", "cudaMallocFromPoolAsync", "cudaMallocManaged", "cudaMallocHost",
        "cudaHostAlloc", "cudaMallocPitch"}) {
    for (const Call& call : m.calls(other)) {
      if (!call.arguments.empty() && communicates(call.arguments[0]))
        return p.refuse(call.name, fmt::format("{} gives memory that no window can hold", other),
                        "allocate communication buffers by cudaMalloc in sculler_setup");
    }
  }
  for (Call& call : m.calls("cudaMalloc")) {
    if (call.arguments.size() != 2 || !communicates(call.arguments[0])) continue;
    if (call.function >= 0 &&
        m.functions()[static_cast<std::size_t>(call.function)].name == "sculler_run")
      return p.refuse(call.name, "a communication buffer is allocated in every iteration",
                      "allocate it in sculler_setup: windows are registered once");
    if (const auto why = p.names.varies(call.arguments[1], false); !why.empty())
      return p.refuse(call.name,
                      fmt::format("the size of a communication buffer follows from {}", why),
                      "allocate the largest size on every rank");
    p.mallocs.push_back(std::move(call));
  }
  if (!p.mallocs.empty()) {
    // All of them: window_free knows what is a window.
    p.frees = m.calls("cudaFree");
    for (std::size_t i = 0; i < m.code().size(); ++i) {
      if (m.is(i, "cudaFree") && !m.free_call(i))
        return p.refuse(i, "cudaFree is handed on: whether it frees a window cannot be told",
                        "call cudaFree where memory is freed");
    }
  }
  for (Call& call : m.calls("ncclCommWindowRegister")) {
    if (call.arguments.size() == 5) p.registrations.push_back(std::move(call));
  }
  return {};
}

}  // namespace

const Signature* signature_of(std::string_view name) {
  const auto found = std::find_if(kSignatures.begin(), kSignatures.end(),
                                  [&](const Signature& s) { return s.name == name; });
  return found == kSignatures.end() ? nullptr : &*found;
}

tl::unexpected<Error> Program::refuse(std::size_t token, std::string why, std::string cure) const {
  return fail(Error{ErrorCode::kUnsupported,
                    std::move(why),
                    fmt::format("{}:{}", origin, model.line(token)),
                    {},
                    std::move(cure)});
}

std::string resolved(const Program& p, Range range) {
  const TextModel& m = p.model;
  for (int step = 0; step < 8; ++step) {
    while (m.is(range.first, "(") && m.partner(range.first) + 1 == range.last) {
      ++range.first;
      --range.last;
    }
    if ((m.is(range.first, "static_cast") || m.is(range.first, "reinterpret_cast")) &&
        m.is(range.last - 1, ")") && m.partner(range.last - 1) > range.first) {
      range = {m.partner(range.last - 1) + 1, range.last - 1};
      continue;
    }
    if (range.last != range.first + 1 || !m.identifier(range.first)) break;
    const Range value =
        p.names.only_value(local_key(m.function_at(range.first), m.code()[range.first].text));
    if (value.empty()) break;
    range = value;
  }
  return m.joined(range);
}

Status read_program(Program& program) {
  if (auto ok = read_sites(program); !ok) return ok;
  if (auto ok = read_groups(program); !ok) return ok;
  return read_allocations(program);
}

}  // namespace sculler::analyze
