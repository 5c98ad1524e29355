// HTTP behind an interface: one POST (or GET) whose answer is taken piece by piece.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "llm/provider.h"
#include "llm/stop.h"

namespace sculler::llm {

struct HttpRequest {
  std::string url{};
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};  // empty: GET
  int64_t deadline_ns = 0;
  std::string unix_socket{};  // instead of the host of `url`
};

struct HttpReply {
  int status = 0;
  double retry_after_s = -1;  // of Retry-After or Retry-After-Ms; negative: none
  std::string error_body{};   // of a status other than 2xx, at most 64 KiB
};

struct HttpFailure {
  Fault fault = Fault::kUnreachable;  // kTimeout, kCancelled, kUnreachable, kHalf, kTooBig
  std::string message{};
  bool sent = false;     // the server may have seen the whole request
  bool refused = false;  // by the sink
};

// Gets the body of a 2xx answer. False ends the transfer.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  virtual void begin(std::string_view content_type) = 0;
  [[nodiscard]] virtual bool data(std::string_view piece) = 0;
};

class Http {
 public:
  virtual ~Http() = default;
  [[nodiscard]] virtual tl::expected<HttpReply, HttpFailure> send(const HttpRequest& request,
                                                                  HttpSink& sink,
                                                                  const Stop& stop) = 0;
};

// libcurl. Connections are kept and used again; proxies by http_proxy, https_proxy, all_proxy and
// no_proxy; a CA bundle by CURL_CA_BUNDLE, SSL_CERT_FILE or SSL_CERT_DIR. Redirects are not
// followed: a key must not travel to another host.
[[nodiscard]] std::unique_ptr<Http> make_curl_http(Clock& clock);
// "libcurl/7.88.1 OpenSSL/3.0.15 …".
[[nodiscard]] std::string http_version();
// Empty where it can be asked; else what is wrong with it. No credentials, http or https only.
[[nodiscard]] std::string url_problem(std::string_view url);

}  // namespace sculler::llm
