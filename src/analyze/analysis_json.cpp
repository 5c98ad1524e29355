// The analysis for programs (docs/analyze.schema.json).
#include <cmath>
#include <nlohmann/json.hpp>

#include "analyze/analysis.h"
#include "base/json.h"

namespace sculler::analyze {
namespace {

using nlohmann::json;

json us(double value) { return std::round(value * 100) / 100; }
json share(double value) { return std::round(value * 10000) / 10000; }

json bytes_json(const Bytes& b) { return {{"space", b.space}, {"begin", b.begin}, {"end", b.end}}; }

json spans_json(const std::vector<Span>& spans) {
  json out = json::array();
  for (const Span& s : spans) {
    json one = bytes_json(s);
    if (s.sparse) one["sparse"] = true;
    if (!s.at.empty()) one["at"] = s.at;
    if (const Walk walk = walk_of(s); walk != Walk::kNone) one["walk"] = walk_name(walk);
    out.push_back(std::move(one));
  }
  return out;
}

json operation_json(const Operation& op) {
  json out{{"id", op.id},
           {"rank", op.rank},
           {"stream", op.stream},
           {"kind", op.kind},
           {"name", op.name},
           {"reads", spans_json(op.reads)},
           {"writes", spans_json(op.writes)}};
  if (!op.at.empty()) out["at"] = op.at;
  if (!op.after.empty()) out["after"] = op.after;
  if (op.meeting >= 0) out["meeting"] = op.meeting;
  if (op.blocks > 0) out["blocks"] = op.blocks;
  if (op.timed()) {
    out["start_us"] = us(op.start_us);
    out["end_us"] = us(op.end_us);
    if (!op.bound.empty()) out["bound"] = op.bound;
  }
  for (const CollectiveCall& call : op.calls) {
    json one{{"name", call.name}, {"bytes", call.bytes}};
    if (!call.at.empty()) one["at"] = call.at;
    if (call.peer >= 0) one["peer"] = call.peer;
    if (!call.members.empty()) one["members"] = call.members;
    if (call.send.space >= 0) one["send"] = bytes_json(call.send);
    if (call.recv.space >= 0) one["recv"] = bytes_json(call.recv);
    out["calls"].push_back(std::move(one));
  }
  return out;
}

json part_json(const Iteration& it, const Transfer::Part& part) {
  json out{{"op", it.operations[part.op].id},
           {"bytes", part.bytes},
           {"walk", walk_name(part.walk)},
           {"pieces", json::array()}};
  if (!part.at.empty()) out["at"] = part.at;
  for (const Piece& piece : part.pieces) {
    json one = bytes_json(piece.bytes);
    one["first"] = share(piece.when.first);
    one["last"] = share(piece.when.last);
    out["pieces"].push_back(std::move(one));
  }
  return out;
}

json transfer_json(const Iteration& it, const Transfer& t) {
  json out{{"op", it.operations[t.op].id}, {"sent", t.sent},           {"received", t.received},
           {"producers", json::array()},   {"readers", json::array()}, {"overlaps", json::array()}};
  for (const auto& part : t.producers) out["producers"].push_back(part_json(it, part));
  for (const auto& part : t.readers) out["readers"].push_back(part_json(it, part));
  for (const auto& o : t.overlaps) {
    json one{{"op", it.operations[o.op].id}, {"how", how_name(o.how)}, {"before", o.before}};
    if (o.how == Transfer::Overlap::How::kPieces) one["from"] = share(o.from);
    if (it.operations[o.op].timed()) one["gain_us"] = us(o.gain_us);
    out["overlaps"].push_back(std::move(one));
  }
  return out;
}

json headroom_json(const Iteration& it, const Headroom& h) {
  json out{{"rank", h.rank},
           {"now_us", us(h.now)},
           {"computes_us", us(h.computes)},
           {"communicates_us", us(h.communicates)},
           {"pieces_us", us(h.pieces)},
           {"bound_us", us(h.bound)},
           {"critical_path", json::array()}};
  for (const std::size_t i : h.critical) out["critical_path"].push_back(it.operations[i].id);
  return out;
}

}  // namespace

std::string analysis_json(const Analysis& a, const About& about) {
  const Iteration& it = a.iteration;
  json out{{"version", 1},
           {"file", about.file},
           {"task", about.task},
           {"size", about.size},
           {"n_ranks", it.n_ranks},
           {"truncated", it.truncated},
           {"spaces", json::array()},
           {"operations", json::array()},
           {"edges", json::array()},
           {"transfers", json::array()}};
  if (a.headroom) out["predicted_for"] = {{"profile", about.profile}, {"size", about.predict_size}};
  if (!it.untimed.empty()) out["untimed"] = it.untimed;
  for (const Space& s : it.spaces)
    out["spaces"].push_back({{"rank", s.rank}, {"name", s.name}, {"bytes", s.bytes}});
  for (const Operation& op : it.operations) out["operations"].push_back(operation_json(op));
  for (const Edge& e : a.edges) {
    json one{{"kind", kind_name(e.kind)},
             {"from", it.operations[e.from].id},
             {"to", it.operations[e.to].id}};
    for (const Bytes& b : e.bytes) one["bytes"].push_back(bytes_json(b));
    out["edges"].push_back(std::move(one));
  }
  for (const Transfer& t : a.transfers) out["transfers"].push_back(transfer_json(it, t));
  if (a.headroom) out["headroom"] = headroom_json(it, *a.headroom);
  return dump_json(out);
}

}  // namespace sculler::analyze
