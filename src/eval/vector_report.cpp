#include "eval/vector_report.h"

#include <algorithm>

#include "base/strings.h"

namespace sculler::eval {
namespace {

constexpr std::size_t kRemarks = 24;

// What is known of the loops at one line.
struct Line {
  int64_t bytes = 0;  // widest vectors of a loop that was vectorised
  bool missed = false;
  std::string why;
};

// "candidate.cpp:39:33: optimized: loop vectorized using 64 byte vectors" in parts.
struct Remark {
  std::string_view file, kind, text;
  int64_t line = 0;
};

bool read_remark(std::string_view line, Remark& out) {
  // Files of others, the library's headers among them, have a path.
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || line.substr(0, colon).find('/') != std::string_view::npos)
    return false;
  const auto parts = split(line, ':');
  if (parts.size() < 5) return false;
  const auto number = parse_int(parts[1]);
  if (!number || !parse_int(parts[2])) return false;
  out.file = parts[0];
  out.line = *number;
  out.kind = trim(parts[3]);
  const std::string_view mark = out.kind == "missed" ? "missed:" : "optimized:";
  const auto at = line.find(mark);
  if (at == std::string_view::npos) return false;
  out.text = trim(line.substr(at + mark.size()));
  return true;
}

void read_registers(std::string_view assembly, VectorReport& out) {
  int64_t bits = 0, spills = 0;
  for (const auto line : split(assembly, '\n')) {
    const auto percent = line.find("mm");
    if (percent == std::string_view::npos || percent < 2 || line[percent - 2] != '%') continue;
    const char width = line[percent - 1];
    bits = std::max<int64_t>(bits, width == 'z' ? 512 : width == 'y' ? 256 : 128);
    const auto body = trim(line);
    // vmovaps %zmm3, 128(%rsp): from a register to the stack.
    const auto comma = body.rfind(", ");
    if (comma == std::string_view::npos || !(body.starts_with("vmov") || body.starts_with("mov")))
      continue;
    const auto target = body.substr(comma + 2);
    if (body.find("mm") < comma && (target.ends_with("(%rsp)") || target.ends_with("(%rbp)")))
      ++spills;
  }
  if (bits == 0) return;
  out.facts["vector_bits"] = bits;
  out.facts["vector_spills"] = spills;
}

}  // namespace

VectorReport read_vector_report(std::string_view remarks, std::string_view assembly) {
  VectorReport out;
  std::map<std::pair<std::string, int64_t>, Line> lines;
  for (const auto text : split(remarks, '\n')) {
    Remark r;
    if (!read_remark(text, r)) continue;
    const std::pair key{std::string(r.file), r.line};
    if (constexpr std::string_view kUsing = "loop vectorized using "; r.text.starts_with(kUsing)) {
      const auto rest = r.text.substr(kUsing.size());
      auto& line = lines[key];
      line.bytes =
          std::max(line.bytes, parse_int(rest.substr(0, rest.find(' '))).value_or(int64_t{0}));
    } else if (r.text.starts_with("couldn't vectorize loop")) {
      lines[key].missed = true;
    } else if (constexpr std::string_view kNot = "not vectorized: "; r.text.starts_with(kNot)) {
      const auto found = lines.find(key);
      if (found != lines.end() && found->second.why.empty())
        found->second.why = printable(shorten(r.text.substr(kNot.size()), 120));
    }
  }
  int64_t vectorised = 0, scalar = 0;
  for (const auto& [place, line] : lines) {
    std::string text = place.first + ":" + std::to_string(place.second) + ": ";
    if (line.bytes > 0) {
      ++vectorised;
      text += "vectorised, " + std::to_string(line.bytes * 8) + " bits";
    } else if (line.missed && line.why.find("nested loops") == std::string::npos &&
               line.why.find("loop nest") == std::string::npos) {
      // An outer loop is not meant to be.
      ++scalar;
      text += "not vectorised" + (line.why.empty() ? std::string() : ": " + line.why);
    } else {
      continue;
    }
    if (out.remarks.size() < kRemarks) out.remarks.push_back(std::move(text));
  }
  if (!remarks.empty()) {
    out.facts["loops_vectorised"] = vectorised;
    out.facts["loops_scalar"] = scalar;
  }
  read_registers(assembly, out);
  return out;
}

}  // namespace sculler::eval
