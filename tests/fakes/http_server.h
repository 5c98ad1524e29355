// A real HTTP server on a port of 127.0.0.1 that does what a test says, byte by byte.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sculler::fakes {

struct Received {
  std::string head;  // request line and headers
  std::string body;
  int number = 0;  // of all requests, from 0
};

class Connection {
 public:
  Connection(int fd, const std::atomic<bool>& closing) : fd_(fd), closing_(closing) {}
  // False where the client is gone or the server closes.
  bool send(std::string_view text) {
    while (!text.empty() && !closing_) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return !closing_;
  }
  bool reply(int status, std::string_view body, std::string_view headers = {}) {
    return send("HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" +
                std::string(headers) + "Content-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + std::string(body));
  }
  // Begins a stream that ends with the connection.
  bool stream() {
    close_ = true;
    return send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
  }
  // True unless the client went away or the server closes meanwhile.
  bool pause(int ms) {
    for (int i = 0; i < ms && !closing_; i += 5) {
      pollfd p{fd_, POLLRDHUP, 0};
      if (::poll(&p, 1, 5) > 0) return false;
    }
    return !closing_;
  }
  void drop() { close_ = true; }
  [[nodiscard]] bool closed() const { return close_; }

 private:
  int fd_;
  const std::atomic<bool>& closing_;
  bool close_ = false;
};

class HttpServer {
 public:
  using Handler = std::function<void(Connection&, const Received&)>;
  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (listener_ < 0 || ::bind(listener_, generic, size) != 0 || ::listen(listener_, 256) != 0 ||
        ::getsockname(listener_, generic, &size) != 0) {
      throw std::runtime_error("no port to listen on");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~HttpServer() {
    closing_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(threads_);
    }
    for (auto& thread : threads) thread.join();
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int requests() const { return requests_; }
  [[nodiscard]] int connections() const { return connections_; }
  [[nodiscard]] std::vector<Received> received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  void accept_all() {
    while (!closing_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) {
        if (closing_) return;
        continue;
      }
      ++connections_;
      const std::lock_guard lock(mutex_);
      threads_.emplace_back([this, fd] {
        serve(fd);
        ::close(fd);
      });
    }
  }

  void serve(int fd) {
    std::string buffer;
    Connection connection(fd, closing_);
    // More bytes, false at the end.
    const auto more = [&] {
      while (!closing_) {
        pollfd p{fd, POLLIN, 0};
        if (::poll(&p, 1, 20) == 0) continue;
        char chunk[16384];
        const ssize_t n = ::recv(fd, chunk, sizeof chunk, 0);
        if (n <= 0) return false;
        buffer.append(chunk, static_cast<std::size_t>(n));
        return true;
      }
      return false;
    };
    while (!closing_ && !connection.closed()) {
      std::size_t end = 0;
      while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
        if (!more()) return;
      }
      Received request;
      request.head = buffer.substr(0, end);
      buffer.erase(0, end + 4);
      std::size_t length = 0;
      if (const auto at = request.head.find("Content-Length: "); at != std::string::npos)
        length = std::stoul(request.head.substr(at + 16));
      while (buffer.size() < length) {
        if (!more()) return;
      }
      request.body = buffer.substr(0, length);
      buffer.erase(0, length);
      request.number = requests_++;
      {
        const std::lock_guard lock(mutex_);
        received_.push_back(request);
      }
      handler_(connection, request);
    }
  }

  Handler handler_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> closing_{false};
  std::atomic<int> requests_{0}, connections_{0};
  mutable std::mutex mutex_;
  std::vector<Received> received_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace sculler::fakes
