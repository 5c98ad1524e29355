#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include "base/process.h"
#include "base/strings.h"
#include "llm/http.h"

namespace sculler::llm {
namespace {

constexpr std::size_t kErrorBytes = std::size_t{64} << 10;
constexpr std::size_t kHeaderBytes = std::size_t{256} << 10;
constexpr int64_t kConnectMs = 30'000;
constexpr std::size_t kIdleChannels = 256;

// A connection cache of its own and the handle that uses it: one request at a time.
struct Channel {
  CURLM* multi = curl_multi_init();
  CURL* easy = curl_easy_init();
  Channel() = default;
  ~Channel() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
};

struct Transfer {
  CURL* easy = nullptr;
  HttpSink* sink = nullptr;
  HttpReply reply{};
  std::size_t header_bytes = 0;
  uint64_t received = 0;
  bool begun = false, refused = false, flooded = false;
};

void note_header(Transfer& transfer, std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) {
    if (line.starts_with("HTTP/")) transfer.reply.retry_after_s = -1;  // of the answer before
    return;
  }
  const std::string name = to_lower(line.substr(0, colon));
  const std::string value(trim(line.substr(colon + 1)));
  if (name == "retry-after-ms") {
    if (const auto ms = parse_double(value)) transfer.reply.retry_after_s = *ms / 1000;
  } else if (name == "retry-after" && transfer.reply.retry_after_s < 0) {
    if (const auto seconds = parse_double(value)) {
      transfer.reply.retry_after_s = *seconds;
    } else if (const time_t date = curl_getdate(value.c_str(), nullptr); date >= 0) {
      transfer.reply.retry_after_s = std::max(0.0, std::difftime(date, std::time(nullptr)));
    }
  }
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.header_bytes += size * count;
  if (transfer.header_bytes > kHeaderBytes) {
    transfer.flooded = true;
    return 0;
  }
  note_header(transfer, {data, size * count});
  return size * count;
}

std::size_t on_data(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view piece(data, size * count);
  long status = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  transfer.received += piece.size();
  if (status < 200 || status > 299) {
    auto& body = transfer.reply.error_body;
    body.append(piece.substr(0, kErrorBytes - std::min(kErrorBytes, body.size())));
    return body.size() < kErrorBytes ? piece.size() : 0;  // enough has been read
  }
  if (!transfer.begun) {
    const char* type = nullptr;
    curl_easy_getinfo(transfer.easy, CURLINFO_CONTENT_TYPE, &type);
    transfer.sink->begin(type == nullptr ? "" : type);
    transfer.begun = true;
  }
  if (transfer.sink->data(piece)) return piece.size();
  transfer.refused = true;
  return 0;
}

class CurlHttp final : public Http {
 public:
  explicit CurlHttp(Clock& clock) : clock_(clock) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (ready != CURLE_OK) throw std::runtime_error("libcurl does not start");
    for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
      if (ca_file_.empty()) ca_file_ = env_value(name);
    }
    ca_folder_ = env_value("SSL_CERT_DIR");
  }

  tl::expected<HttpReply, HttpFailure> send(const HttpRequest& request, HttpSink& sink,
                                            const Stop& stop) override {
    auto channel = take();
    if (channel == nullptr)
      return tl::unexpected(HttpFailure{Fault::kUnreachable, "libcurl has no handle left"});
    auto reply = run(*channel, request, sink, stop);
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kIdleChannels) idle_.push_back(std::move(channel));
    return reply;
  }

 private:
  std::unique_ptr<Channel> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto channel = std::move(idle_.back());
        idle_.pop_back();
        return channel;
      }
    }
    auto channel = std::make_unique<Channel>();
    return channel->multi == nullptr || channel->easy == nullptr ? nullptr : std::move(channel);
  }

  tl::expected<HttpReply, HttpFailure> run(const Channel& channel, const HttpRequest& request,
                                           HttpSink& sink, const Stop& stop) {
    CURL* easy = channel.easy;
    curl_easy_reset(easy);
    Transfer transfer;
    transfer.easy = easy;
    transfer.sink = &sink;
    char words[CURL_ERROR_SIZE] = "";
    curl_slist* headers = nullptr;
    for (const auto& [name, value] : request.headers)
      headers = curl_slist_append(headers, fmt::format("{}: {}", name, value).c_str());
    // No "100 Continue" before larger bodies: it costs a round trip, or a second.
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    if (!request.body.empty()) {
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
    }
    if (!request.unix_socket.empty()) {
      curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request.unix_socket.c_str());
      curl_easy_setopt(easy, CURLOPT_PROXY, "");
    }
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(kConnectMs));
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "sculler");
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, words);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
    if (!ca_file_.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file_.c_str());
    if (!ca_folder_.empty()) curl_easy_setopt(easy, CURLOPT_CAPATH, ca_folder_.c_str());

    curl_multi_add_handle(channel.multi, easy);
    CURLcode code = CURLE_OK;
    Fault ended = Fault::kUnreachable;
    bool done = false, cut = false;
    while (!done) {
      int running = 0;
      if (curl_multi_perform(channel.multi, &running) != CURLM_OK) {
        code = CURLE_FAILED_INIT;
        break;
      }
      int left = 0;
      while (const CURLMsg* message = curl_multi_info_read(channel.multi, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        code = message->data.result;
        done = true;
      }
      if (done) break;
      const int64_t remaining_ms = (request.deadline_ns - clock_.now_ns() + 999'999) / 1'000'000;
      if (stop.fired() || remaining_ms <= 0) {
        ended = stop.fired() ? Fault::kCancelled : Fault::kTimeout;
        cut = true;
        break;
      }
      curl_waitfd extra{stop.fd(), CURL_WAIT_POLLIN, 0};
      curl_multi_poll(channel.multi, &extra, 1,
                      static_cast<int>(std::min<int64_t>(remaining_ms, 1'000'000)), nullptr);
    }
    curl_off_t uploaded = 0;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(channel.multi, easy);
    curl_slist_free_all(headers);
    transfer.reply.status = static_cast<int>(status);
    const bool sent = static_cast<std::size_t>(uploaded) >= request.body.size();
    if (cut) {
      return tl::unexpected(HttpFailure{
          ended, ended == Fault::kCancelled ? "the run was stopped" : "no answer in time", sent});
    }
    if (transfer.flooded)
      return tl::unexpected(HttpFailure{Fault::kTooBig, "headers without end", sent});
    if (transfer.refused)
      return tl::unexpected(HttpFailure{Fault::kTooBig, "the answer was cut off", sent, true});
    if (code == CURLE_OK || (status > 299 && !transfer.reply.error_body.empty()))
      return transfer.reply;
    const std::string what = words[0] != '\0' ? words : curl_easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT && !sent && transfer.received == 0)
      return tl::unexpected(HttpFailure{Fault::kUnreachable, what});
    return tl::unexpected(HttpFailure{
        transfer.begun || transfer.received > 0 ? Fault::kHalf : Fault::kUnreachable, what, sent});
  }

  Clock& clock_;
  std::string ca_file_, ca_folder_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Channel>> idle_;
};

}  // namespace

std::unique_ptr<Http> make_curl_http(Clock& clock) { return std::make_unique<CurlHttp>(clock); }

std::string http_version() { return curl_version(); }

std::string url_problem(std::string_view url) {
  CURLU* parts = curl_url();
  const std::string text(url);
  const CURLUcode code = curl_url_set(parts, CURLUPART_URL, text.c_str(), 0);
  std::string problem;
  const auto part = [&](CURLUPart what) {
    char* value = nullptr;
    std::string out;
    if (curl_url_get(parts, what, &value, 0) == CURLUE_OK && value != nullptr) out = value;
    curl_free(value);
    return out;
  };
  if (code != CURLUE_OK) {
    problem = "is no URL";
  } else if (const auto scheme = part(CURLUPART_SCHEME); scheme != "http" && scheme != "https") {
    problem = "is not http or https";
  } else if (!part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty()) {
    problem = "carries a user or a password";
  } else if (const auto query = to_lower(part(CURLUPART_QUERY));
             query.find("key=") != std::string::npos || query.find("token=") != std::string::npos) {
    problem = "carries a key";
  }
  curl_url_cleanup(parts);
  return problem;
}

}  // namespace sculler::llm
