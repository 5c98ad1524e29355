// The analysis as an SVG file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyze/analysis.h"
#include "base/strings.h"
#include "base/xml.h"

namespace sculler::analyze {
namespace {

constexpr double kLeft = 130, kTop = 66, kLane = 44, kBox = 28, kWidth = 1040, kColumn = 150;
constexpr double kLetter = 6.3;  // width of one, about
constexpr const char *kComputes = "#8fb8de", *kCommunicates = "#f2b36f", *kCopies = "#a8d5a2",
                     *kOther = "#d9d9d9", *kInk = "#333", *kCritical = "#b3261e";

const char* colour(const Iteration& it, const Operation& op) {
  if (communicates(it, op)) return kCommunicates;
  if (computes(it, op)) return kComputes;
  return op.kind == "copy" || op.kind == "memset" ? kCopies : kOther;
}

class Drawing {
 public:
  explicit Drawing(const Analysis& a) : a_(a), it_(a.iteration) { place(); }

  std::string draw(const About& about) {
    const double lanes_end = kTop + kLane * static_cast<double>(lanes_.size());
    const double height = lanes_end + (a_.headroom ? 138 : 50);
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
        "height=\"{:.0f}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"{}\">\n",
        right_ + 30, height, right_ + 30, height, kInk);
    for (const auto& [id, ink] : {std::pair("f", "#555"), std::pair("c", "#c4721a")}) {
      out_ += fmt::format(
          "<marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"6\" "
          "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{}\"/></marker>\n",
          id, ink);
    }
    out_ += "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    std::string title = fmt::format("{}: one iteration of {} on {} ranks at size {}", about.file,
                                    about.task, it_.n_ranks, about.size);
    if (timed_)
      title +=
          fmt::format("; times predicted for {} at size {}", about.profile, about.predict_size);
    text(10, 20, title, 14);
    legend(10, 30);
    if (timed_) axis(lanes_end);
    for (const auto& [key, lane] : lanes_) {
      const double y = kTop + kLane * static_cast<double>(lane);
      out_ += fmt::format("<path d=\"M10 {0:.1f}H{1:.1f}\" stroke=\"#eee\"/>\n", y - 7, right_);
      text(10, y + 18, fmt::format("rank {}, stream {}", key.first, key.second));
    }
    for (std::size_t i = 0; i < boxes_.size(); ++i) box(i);
    for (const Edge& e : a_.edges) arrow(e);
    if (a_.headroom) headroom(lanes_end + 34);
    return std::move(out_) + "</svg>\n";
  }

 private:
  struct Box {
    double x = 0, y = 0, width = 0;
    bool event = false;
  };
  void place() {
    double last = 0;
    for (const Operation& op : it_.operations) {
      lanes_.try_emplace({op.rank, op.stream}, 0);
      if (op.timed()) last = std::max(last, op.end_us);
    }
    std::size_t n = 0;
    for (auto& [key, lane] : lanes_) lane = n++;
    timed_ = last > 0;
    scale_ = timed_ ? kWidth / last : 0;
    // Without times, each operation behind what it depends on.
    std::vector<int> column(it_.operations.size(), 0);
    bool moved = !timed_;
    for (std::size_t pass = 0; moved && pass < it_.operations.size(); ++pass) {
      moved = false;
      for (const Edge& e : a_.edges) {
        if (e.from >= e.to || column[e.to] > column[e.from]) continue;
        column[e.to] = column[e.from] + 1;
        moved = true;
      }
    }
    boxes_.resize(it_.operations.size());
    right_ = kLeft + (timed_ ? kWidth : 300);
    for (std::size_t i = 0; i < it_.operations.size(); ++i) {
      const Operation& op = it_.operations[i];
      Box& b = boxes_[i];
      b.event = op.kind.starts_with("event") || op.kind == "free" || op.kind == "graph_launch";
      b.y = kTop + kLane * static_cast<double>(lanes_[{op.rank, op.stream}]);
      b.x = kLeft + (timed_ ? scale_ * std::max(0.0, op.start_us) : kColumn * column[i]);
      b.width = b.event ? 2 : timed_ ? std::max(2.0, scale_ * op.duration()) : kColumn - 30;
      right_ = std::max(right_, b.x + b.width);
    }
    critical_.assign(it_.operations.size(), false);
    if (a_.headroom)
      for (const std::size_t i : a_.headroom->critical) critical_[i] = true;
  }

  void text(double x, double y, std::string_view what, int size = 11) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\">{}</text>\n", x, y, size,
                        xml_escaped(what));
  }
  void rect(double x, double y, double width, double height, const char* fill,
            const char* stroke = "none", int thick = 1) {
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\" fill=\"{}\" "
        "stroke=\"{}\" stroke-width=\"{}\"/>\n",
        x, y, width, height, fill, stroke, thick);
  }
  void legend(double x, double y) {
    for (const auto& [fill, what] :
         {std::pair(kComputes, "computes"), std::pair(kCommunicates, "communicates"),
          std::pair(kCopies, "copies"), std::pair(kOther, "other")}) {
      rect(x, y, 12, 12, fill, "#888");
      text(x + 17, y + 10, what);
      x += 105;
    }
    if (a_.headroom) {
      rect(x, y, 12, 12, "#fff", kCritical, 2);
      text(x + 17, y + 10, "critical path");
    }
  }
  void axis(double bottom) {
    const double last = kWidth / scale_;
    double step = std::pow(10, std::floor(std::log10(last)));
    if (last / step < 2) step /= 5;
    else if (last / step < 5) step /= 2;
    for (int k = 0; step * k <= last; ++k) {
      const double x = kLeft + scale_ * step * k;
      out_ += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#eee\"/>\n", x, kTop - 7,
                          bottom);
      text(x + 2, kTop - 9, k == 0 ? "0 µs" : fmt::format("{:g}", step * k), 9);
    }
  }
  void box(std::size_t i) {
    const Operation& op = it_.operations[i];
    const Box& b = boxes_[i];
    std::string about = fmt::format("{}: {}", op.kind, label(op));
    if (op.timed() && op.duration() > 0)
      about += fmt::format(", {:.1f} to {:.1f} µs", op.start_us, op.end_us);
    out_ += fmt::format("<g><title>{}</title>", xml_escaped(about));
    rect(b.x, b.y, b.width, kBox, colour(it_, op), critical_[i] ? kCritical : "#888",
         critical_[i] ? 2 : 1);
    const auto letters = static_cast<std::size_t>(std::max(0.0, (b.width - 8) / kLetter));
    if (!b.event && letters > 3) text(b.x + 4, b.y + 18, shorten(short_name(op), letters));
    out_ += "</g>\n";
  }
  void arrow(const Edge& e) {
    const Box &a = boxes_[e.from], &b = boxes_[e.to];
    const bool carry = e.kind == Edge::Kind::kCarry;
    if (e.kind == Edge::Kind::kReuse || (e.kind == Edge::Kind::kOrder && a.y == b.y)) return;
    const double from = a.y + kBox / 2, to = b.y + kBox / 2;
    // Both sides of a collective run together: from the middle of one to the middle of the other.
    const double x1 = carry ? a.x + a.width / 2 : a.x + a.width,
                 x2 = carry ? b.x + b.width / 2 : b.x;
    const double bend = carry || a.y != b.y ? 0 : kBox;
    const std::string path = bend == 0
                                 ? fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", x1, from, x2, to)
                                 : fmt::format("M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}", x1,
                                               from, (x1 + x2) / 2, from - bend, x2, to);
    const char* style = e.kind == Edge::Kind::kFlow ? "stroke=\"#555\" marker-end=\"url(#f)\""
                        : carry                     ? "stroke=\"#c4721a\" stroke-dasharray=\"5 3\" "
                                                      "marker-end=\"url(#c)\""
                                                    : "stroke=\"#aaa\" stroke-dasharray=\"1 3\"";
    std::string about = fmt::format("{} from #{} to #{}", kind_name(e.kind),
                                    it_.operations[e.from].id, it_.operations[e.to].id);
    if (e.size() > 0) about += ": " + bytes_text(e.size());
    out_ += fmt::format("<path d=\"{}\" fill=\"none\" {}><title>{}</title></path>\n", path, style,
                        xml_escaped(about));
  }
  void headroom(double y) {
    const Headroom& h = *a_.headroom;
    text(10, y - 10, "headroom", 12);
    for (const auto& [what, time, fill] :
         {std::tuple("now", h.now, kOther), std::tuple("piece by piece", h.pieces, kComputes),
          std::tuple("bound", h.bound, kCommunicates)}) {
      text(10, y + 15, what);
      rect(kLeft, y, scale_ * time, 20, fill, "#888");
      std::string value = microseconds_text(time);
      if (time > 0 && time < h.now) value += fmt::format(", {:.2f}×", h.now / time);
      text(kLeft + 6, y + 14, value);
      y += 28;
    }
  }

  const Analysis& a_;
  const Iteration& it_;
  std::map<std::pair<int, int64_t>, std::size_t> lanes_;  // by rank and stream
  std::vector<Box> boxes_;
  std::vector<bool> critical_;
  bool timed_ = false;
  double scale_ = 0, right_ = 0;  // pixels a µs; the right edge of what is drawn
  std::string out_;
};

}  // namespace

std::string draw_analysis(const Analysis& analysis, const About& about) {
  return Drawing(analysis).draw(about);
}

}  // namespace sculler::analyze
