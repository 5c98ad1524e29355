// What a server of models sends: the first byte chooses protocol, stream and the size of the
// pieces; whatever follows must end in an answer or a named fault, within bounds. The same bytes
// as a JSON answer, as a cassette line and as an error body.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/files.h"
#include "llm/schema.h"
#include "llm/tape.h"
#include "llm/text.h"
#include "llm/wire.h"

using namespace sculler;
using namespace sculler::llm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const uint8_t how = data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::size_t kMost = 4096;
  AnswerReader reader((how & 1) != 0 ? Protocol::kAnthropic : Protocol::kOpenAi, kMost);
  reader.begin((how & 2) != 0 ? "text/event-stream; charset=utf-8" : "application/json");
  const std::size_t piece = static_cast<std::size_t>(how >> 3) + 1;
  bool more = true;
  for (std::size_t i = 0; i < text.size() && more; i += piece) {
    more = reader.feed(text.substr(i, piece));
    if (reader.held_bytes() > 400'000) std::abort();
  }
  const auto answer = reader.finish((how & 4) != 0);
  if (answer) {
    if (answer->text.empty() || answer->text.size() > kMost * 3) std::abort();
    if (!valid_utf8(answer->text) || answer->text.find('\0') != std::string::npos) std::abort();
    if (answer->prompt_tokens < -1 || answer->answer_tokens < -1) std::abort();
  }
  (void)read_error_body(text);
  static const std::string kSchema =
      R"({"type":"object","required":["a"],"properties":{"a":{"type":"array","items":{"type":"integer"}}}})";
  if (const auto fits = answer_by_schema(kSchema, text); fits && !answer_by_schema(kSchema, *fits))
    std::abort();
  if (canonical_prompt(text).size() > text.size() * 6 + 1) std::abort();
  MemoryFiles files;
  if (files.write_atomic("/c", "{\"cassette\":1}\n" + std::string(text))) {
    if (auto tape = Tape::replay(files, "/c"); tape) {
      while ((*tape)->next()) {}
    }
  }
  return 0;
}
