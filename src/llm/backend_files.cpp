// Any agent or person as the model: each prompt is a file, each answer is awaited as one.
#include <fmt/format.h>

#include <mutex>

#include "base/strings.h"
#include "llm/backends.h"
#include "llm/tape.h"
#include "llm/text.h"

namespace sculler::llm {
namespace {

constexpr int64_t kLookNs = 200'000'000;

constexpr std::string_view kReadme = R"(# Questions of a run

You are the model of this run. Every `NAME.prompt.md` here is one question; NAME begins with the number of the
proposal and the role that asks, and stays the same when the run is resumed.

1. Read `NAME.prompt.md`. It is complete: nothing else has to be known, and nothing in it asks you to do
   anything but to write an answer.
2. Write the answer into `NAME.answer.md.tmp`, and when it is complete rename it:
   `mv NAME.answer.md.tmp NAME.answer.md`. Only the renamed file is read, once, so it must be whole by then.
3. The answer is the whole file: plain UTF-8 text, no more than the size that the question states. Where the
   question gives a JSON schema, the file holds one JSON value that fits it, and nothing else.

Open questions are those without an answer: `for f in *.prompt.md; do [ -e "${f%.prompt.md}.answer.md" ] || echo "$f"; done`
Several may be open at once; they can be answered in any order. A question that is not answered in time counts as
a failed proposal; the run goes on. Files with `.stale` are answers to another text of the same question.
)";

std::string prompt_file(const Question& question) {
  const Request& request = *question.request;
  std::string out = fmt::format(
      "<!-- question {0}: answer into {0}.answer.md (write {0}.answer.md.tmp, then rename it); "
      "about {1} "
      "tokens and {2} at most -->\n\n",
      question.name, question.max_tokens, bytes_text(question.max_answer_bytes));
  out += prompt_text(request);
  return out;
}

class FilesBackend final : public Backend {
 public:
  FilesBackend(Files& files, Clock& clock, std::string folder)
      : files_(files), clock_(clock), folder_(std::move(folder)) {}

  RawReply ask(const Question& question, const Stop& stop) override {
    if (auto ok = put(question); !ok) return raw_fault(Fault::kSetup, ok.error().text());
    const std::string path = join_path(folder_, question.name + ".answer.md");
    std::string before;
    for (;;) {
      if (stop.fired()) return raw_fault(Fault::kCancelled, "the run was stopped");
      if (files_.exists(path)) {
        auto text = files_.read(path, question.max_answer_bytes);
        if (!text && text.error().code == ErrorCode::kBadInput)
          return raw_fault(Fault::kTooBig, fmt::format("{} is larger than {}", path,
                                                       bytes_text(question.max_answer_bytes)));
        // Twice the same: whoever wrote it in place has ended.
        if (text && !trim(*text).empty() && *text == before) return take(std::move(*text), path);
        before = text ? std::move(*text) : std::string();
      }
      const int64_t left = question.deadline_ns - clock_.now_ns();
      if (left <= 0)
        return raw_fault(Fault::kTimeout, fmt::format("{} did not come in time", path));
      if (!stop.sleep(clock_, std::min(left, kLookNs)))
        return raw_fault(Fault::kCancelled, "the run was stopped");
    }
  }

 private:
  RawReply take(std::string text, const std::string& path) const {
    if (!valid_utf8(text)) return raw_fault(Fault::kEncoding, path + " is not UTF-8");
    Raw raw;
    raw.text = without_nul(std::move(text));
    raw.finish = "stop";
    return raw;
  }

  Status put(const Question& question) {
    const std::lock_guard lock(mutex_);
    if (!ready_) {
      if (auto ok = files_.mkdirs(folder_); !ok) return ok;
      if (auto ok = files_.write_atomic(join_path(folder_, "README.md"), kReadme); !ok) return ok;
      ready_ = true;
    }
    const std::string prompt = prompt_file(question);
    const std::string path = join_path(folder_, question.name + ".prompt.md");
    auto old = files_.read(path);
    if (old && *old == prompt) return {};
    // An answer to another text of this question is none to this one.
    const std::string answer = join_path(folder_, question.name + ".answer.md");
    if (auto stale = files_.read(answer); stale) {
      if (auto ok = files_.write_atomic(answer + ".stale", *stale); !ok) return ok;
      if (auto ok = files_.remove_all(answer); !ok) return ok;
    }
    return files_.write_atomic(path, prompt);
  }

  Files& files_;
  Clock& clock_;
  std::string folder_;
  std::mutex mutex_;
  bool ready_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_files_backend(Files& files, Clock& clock, std::string folder) {
  return std::make_unique<FilesBackend>(files, clock, std::move(folder));
}

}  // namespace sculler::llm
