#include <fmt/format.h>

#include "base/strings.h"
#include "llm/backends.h"

namespace sculler::llm {
namespace {

class ReaderSink final : public HttpSink {
 public:
  explicit ReaderSink(AnswerReader& reader) : reader_(reader) {}
  void begin(std::string_view content_type) override { reader_.begin(content_type); }
  bool data(std::string_view piece) override { return reader_.feed(piece); }

 private:
  AnswerReader& reader_;
};

// What a status other than 2xx means.
RawFailure status_failure(const HttpReply& reply, const std::string& host) {
  const ErrorBody body = read_error_body(reply.error_body);
  const std::string said = body.text.empty() ? std::string("no reason given") : body.text;
  const std::string text = fmt::format("{} answers {}: {}", host, reply.status, said);
  RawFailure out;
  out.retry_after_s = reply.retry_after_s;
  out.schema_unknown = body.schema && (reply.status == 400 || reply.status == 422);
  Fault kind = Fault::kRejected;
  std::string cure;
  if (body.context && reply.status != 429) {
    kind = Fault::kTooLong;
  } else if (reply.status == 402 || (reply.status == 429 && body.quota)) {
    kind = Fault::kRefused;
    cure = "the account has no credit left";
  } else if (reply.status == 408 || reply.status == 409 || reply.status == 425) {
    kind = Fault::kServer;
  } else if (reply.status == 429) {
    kind = Fault::kRateLimited;
  } else if (reply.status >= 500) {
    kind = Fault::kServer;
  } else if (reply.status == 401 || reply.status == 403) {
    kind = Fault::kRefused;
    cure = "check the key (key_env, key_file) and what it may use";
  } else if (reply.status == 404 || reply.status == 405 || reply.status / 100 == 3) {
    kind = Fault::kRefused;
    cure = "check url and model; redirects are not followed";
  }
  out.failure = fault(kind, text, cure).value();
  return out;
}

std::string host_of(const std::string& url) {
  const auto scheme = url.find("://");
  const auto start = scheme == std::string::npos ? 0 : scheme + 3;
  return url.substr(start, url.find_first_of("/?", start) - start);
}

class HttpBackend final : public Backend {
 public:
  HttpBackend(Protocol protocol, Model model,
              std::vector<std::pair<std::string, std::string>> headers, Http& http)
      : protocol_(protocol), model_(std::move(model)), headers_(std::move(headers)), http_(http) {
    const std::string_view last = protocol == Protocol::kOpenAi ? "/chat/completions" : "/messages";
    url_ = model_.url;
    const auto query = url_.find('?');
    std::string path = url_.substr(0, query);
    while (path.ends_with('/')) path.pop_back();
    if (!path.ends_with(last)) path += last;
    url_ = path + (query == std::string::npos ? "" : url_.substr(query));
  }

  RawReply ask(const Question& question, const Stop& stop) override {
    HttpRequest request;
    request.url = url_;
    request.headers = headers_;
    return ask_over_http(protocol_, model_, std::move(request), http_, question, stop);
  }

  SchemaMode schema_mode() const override {
    if (model_.schema == "json_object") return SchemaMode::kObject;
    if (model_.schema == "tool") return SchemaMode::kTool;
    if (model_.schema == "prompt") return SchemaMode::kPrompt;
    return protocol_ == Protocol::kOpenAi ? SchemaMode::kSchema : SchemaMode::kTool;
  }

 private:
  Protocol protocol_;
  Model model_;
  std::vector<std::pair<std::string, std::string>> headers_;
  Http& http_;
  std::string url_;
};

}  // namespace

RawReply ask_over_http(Protocol protocol, const Model& model, HttpRequest request, Http& http,
                       const Question& question, const Stop& stop) {
  auto body = request_body(protocol, model, question);
  if (!body) return raw_fault(Fault::kSetup, body.error().text());
  request.body = std::move(*body);
  request.headers.emplace_back("Content-Type", "application/json");
  if (model.stream) request.headers.emplace_back("Accept", "text/event-stream");
  request.deadline_ns = question.deadline_ns;
  AnswerReader reader(protocol, question.max_answer_bytes);
  ReaderSink sink(reader);
  const std::string host =
      request.unix_socket.empty() ? host_of(request.url) : std::string("the local server");
  const auto reply = http.send(request, sink, stop);
  if (reply && (reply->status < 200 || reply->status > 299))
    return tl::unexpected(status_failure(*reply, host));
  // What the reader found goes first: it is why the transfer was cut off.
  auto answer = reader.finish(reply.has_value());
  if (answer && reply) return *answer;
  // A stream that said its end and then broke is whole.
  if (answer && reply.error().fault == Fault::kHalf) return *answer;
  RawFailure out;
  out.partial = reader.so_far();
  out.billed = reply.has_value() || reply.error().sent;
  if (!reply && !reply.error().refused) {
    out.failure =
        fault(reply.error().fault, fmt::format("{}: {}", host, reply.error().message)).value();
  } else {
    out.failure = answer ? fault(Fault::kMalformed, "no answer").value() : answer.error();
    out.failure.error.message = fmt::format("{}: {}", host, out.failure.error.message);
  }
  return tl::unexpected(std::move(out));
}

std::unique_ptr<Backend> make_http_backend(Protocol protocol, const Model& model,
                                           std::vector<std::pair<std::string, std::string>> headers,
                                           Http& http) {
  return std::make_unique<HttpBackend>(protocol, model, std::move(headers), http);
}

}  // namespace sculler::llm
