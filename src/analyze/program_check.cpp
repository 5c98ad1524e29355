// What must hold before a program is lowered: every rank takes part in every phase, in one order,
// with buffers at one place of their windows.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyze/program.h"

namespace sculler::analyze {
namespace {

// Names of functions that communicate, directly or through others.
std::set<std::string> communicating(const Program& p) {
  const TextModel& m = p.model;
  std::set<std::string> out;
  const auto add = [&](int function) {
    return function >= 0 &&
           out.insert(m.functions()[static_cast<std::size_t>(function)].name).second;
  };
  for (const Site& site : p.sites) (void)add(site.call.function);
  for (bool grown = true; grown;) {
    grown = false;
    for (const std::string& name : std::set<std::string>(out)) {
      for (const Call& call : m.calls(name)) grown |= add(call.function);
    }
  }
  return out;
}

bool ends_well(const TextModel& m, std::size_t i) {
  std::size_t last = i + 1;
  while (last < m.code().size() && !m.is(last, ";")) ++last;
  const std::string value = m.joined({i + 1, last});
  return value.empty() || value == "0" || value == "SCULLER_OK" || value == "ncclSuccess" ||
         value == "cudaSuccess" || value == "true";
}

// Every rank comes to token `at`, as often as its peers.
Status all_take_part(const Program& p, std::size_t at, std::string_view what) {
  const TextModel& m = p.model;
  for (const Control* control : m.around(at)) {
    const auto why = p.names.varies(control->condition, true);
    if (why.empty()) continue;
    const char* kind = control->kind == Control::Kind::kLoop ? "a loop" : "a condition";
    return p.refuse(at,
                    fmt::format("whether all ranks come to {} depends on {}, through {} at line {}",
                                what, why, kind, m.line(control->keyword)),
                    "let every rank communicate the same number of times");
  }
  const std::size_t begin = m.statement_begin(at);
  for (std::size_t i = begin; i < at; ++i) {
    const bool branch = m.is(i, "?") || ((m.is(i, "&") || m.is(i, "|")) &&
                                         m.code()[i + 1].text == m.code()[i].text);
    if (!branch) continue;
    if (const auto why = p.names.varies({begin, at}, true); !why.empty())
      return p.refuse(at, fmt::format("whether all ranks come to {} depends on {}", what, why),
                      "let every rank communicate the same number of times");
  }
  return {};
}

// A rank that leaves early communicates less often than its peers.
Status no_early_exits(const Program& p, const std::vector<std::size_t>& places) {
  const TextModel& m = p.model;
  for (const Control& control : m.controls()) {
    if (control.kind == Control::Kind::kLoop) continue;
    const int function = m.function_at(control.keyword);
    const auto why = p.names.varies(control.condition, true);
    if (why.empty()) continue;
    const auto around = m.around(control.keyword);
    const auto loop = std::find_if(around.rbegin(), around.rend(), [](const Control* c) {
      return c->kind == Control::Kind::kLoop;
    });
    for (std::size_t i = control.body.first; i < control.body.last; ++i) {
      const bool leaves_loop = m.is(i, "break") || m.is(i, "continue");
      const bool leaves = m.is(i, "goto") || (m.is(i, "return") && ends_well(m, i));
      if (!leaves_loop && !leaves) continue;
      for (const std::size_t place : places) {
        if (m.function_at(place) != function || control.body.holds(place)) continue;
        const bool concerned = leaves_loop ? loop != around.rend() && (*loop)->body.holds(place)
                                           : place > i || loop != around.rend();
        if (!concerned) continue;
        return p.refuse(i,
                        fmt::format("{} depends on {}, so some ranks would not come to line {}",
                                    m.code()[i].text, why, m.line(place)),
                        "let every rank communicate the same number of times");
      }
    }
  }
  return {};
}

Status check_stream(const Program& p, const Site& site) {
  const TextModel& m = p.model;
  const Range stream = site.argument(site.signature->stream);
  for (std::size_t i = stream.first; i < stream.last; ++i) {
    if (m.is(i, "?") || (m.identifier(i) && m.is(i + 1, "(")))
      return p.refuse(i,
                      fmt::format("the stream {} of {} cannot be told", m.written(stream),
                                  site.signature->name),
                      "keep the stream in a variable of one meaning");
  }
  if (const auto why = p.names.varies(stream, true); !why.empty())
    return p.refuse(site.call.name,
                    fmt::format("the stream of {} depends on {}", site.signature->name, why),
                    "use one stream on all ranks");
  return {};
}

Status check_group_stream(const Program& p, std::size_t g) {
  const TextModel& m = p.model;
  const Group& group = p.groups[g];
  std::string stream;
  int sends = 0, receives = 0;
  std::size_t first = 0;
  for (const Site& site : p.sites) {
    if (site.group != static_cast<int>(g) || !site.point_to_point()) continue;
    (site.signature->send >= 0 ? sends : receives) += 1;
    const Range argument = site.argument(site.signature->stream);
    const std::string text = m.joined(argument);
    if (stream.empty()) first = site.call.name;
    else if (stream != text)
      return p.refuse(site.call.name, "sends and receives of one group lie on several streams",
                      "give a group one stream");
    stream = text;
    // At the end of the group the name must mean what it means here.
    for (const Name& name : names_in(m, argument)) {
      for (std::size_t i = group.start.name; i < group.end.name; ++i) {
        if (m.code()[i].text != m.code()[name.token].text || i == name.token || i == 0) continue;
        const bool type_before =
            (m.identifier(i - 1) && !m.is(i - 1, "return")) || m.is(i - 1, "*") || m.is(i - 1, "&");
        if (type_before && (m.is(i + 1, "=") || m.is(i + 1, "{") || m.is(i + 1, ";")))
          return p.refuse(i,
                          fmt::format("the stream {} is not known at the end of its group", text),
                          "declare it before ncclGroupStart");
      }
    }
    for (const Control* control : m.around(site.call.name)) {
      if (!control->body.holds(site.call.name) || control->keyword < group.start.name) continue;
      for (const Name& name : names_in(m, argument)) {
        const auto& inside = control->condition;
        for (std::size_t i = inside.first; i < inside.last; ++i) {
          if (m.code()[i].text == m.code()[name.token].text && m.identifier(i))
            return p.refuse(name.token,
                            fmt::format("the stream {} is not known at the end of its group", text),
                            "declare it before ncclGroupStart");
        }
      }
    }
  }
  if (sends == 0 || receives == 0)
    return p.refuse(first,
                    sends > 0
                        ? "this group sends, but receives nothing: who receives cannot be told"
                        : "this group receives, but sends nothing: who sends cannot be told",
                    "put ncclSend and the matching ncclRecv into one group of the same code");
  return {};
}

Status check_site(const Program& p, const Site& site) {
  const TextModel& m = p.model;
  const Signature& s = *site.signature;
  if (p.names.sources({site.argument(s.comm)}).count(".comm") == 0)
    return p.refuse(site.call.name,
                    fmt::format("the communicator {} of {} is not that of sculler_rank",
                                m.written(site.argument(s.comm)), s.name),
                    "take it from sculler_rank.comm");
  if (auto ok = check_stream(p, site); !ok) return ok;
  if (site.point_to_point()) {
    if (site.group < 0)
      return p.refuse(site.call.name,
                      fmt::format("{} outside of a group: who takes part cannot be told", s.name),
                      "put ncclSend and the matching ncclRecv between ncclGroupStart and "
                      "ncclGroupEnd");
    return all_take_part(p, p.groups[static_cast<std::size_t>(site.group)].start.name, s.name);
  }
  if (auto ok = all_take_part(p, site.call.name, s.name); !ok) return ok;
  for (const int index : {s.count, s.root, s.type}) {
    if (index < 0) continue;
    if (const auto why = p.names.varies(site.argument(index), true); !why.empty())
      return p.refuse(
          site.call.name,
          fmt::format("{} of {} depends on {}", m.written(site.argument(index)), s.name, why),
          "give every rank the same value");
  }
  // Peers store to, or read from, these at this rank's own offsets.
  const bool reads_peers = s.operation >= 0;
  const bool writes_peers = s.kind != Collective::kReduceScatter;
  for (const int index : {reads_peers ? s.send : -1, writes_peers ? s.receive : -1}) {
    if (index < 0) continue;
    if (const auto why = p.names.varies(site.argument(index), false); !why.empty())
      return p.refuse(site.call.name,
                      fmt::format("the place {} of {} depends on {}",
                                  m.written(site.argument(index)), s.name, why),
                      "use the same offset on every rank, or grouped sends and receives");
  }
  return {};
}

}  // namespace

Status check_program(const Program& p) {
  const TextModel& m = p.model;
  std::vector<std::size_t> places;
  for (const Site& site : p.sites) {
    if (auto ok = check_site(p, site); !ok) return ok;
    places.push_back(site.group < 0 ? site.call.name
                                    : p.groups[static_cast<std::size_t>(site.group)].start.name);
  }
  for (std::size_t g = 0; g < p.groups.size(); ++g) {
    const Group& group = p.groups[g];
    if (group.outer != static_cast<int>(g) || !group.communicates) continue;
    if (auto ok = all_take_part(p, group.start.name, "a group"); !ok) return ok;
    if (group.exchanges) {
      if (auto ok = check_group_stream(p, g); !ok) return ok;
    }
  }
  for (const std::string& name : communicating(p)) {
    for (const Call& call : m.calls(name)) {
      if (auto ok = all_take_part(p, call.name, name + "()"); !ok) return ok;
      places.push_back(call.name);
      for (const Group& group : p.groups) {
        if (call.name > group.start.name && call.name < group.end.name)
          return p.refuse(call.name,
                          fmt::format("{}() communicates and is called within a group", name),
                          "write the calls into the group itself");
      }
    }
  }
  for (const Call& call : p.mallocs) {
    if (auto ok = all_take_part(p, call.name, "the allocation of a communication buffer"); !ok)
      return ok;
  }
  return no_early_exits(p, places);
}

}  // namespace sculler::analyze
