#include "emu/client/connection.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "emu/client/client.h"

namespace sculler::emu::client {
namespace {

struct Process {
  std::mutex send;  // requests on the main socket: its thread's, and announcements of other threads
  int main_fd = -1;
  pid_t owner = 0;
  bool main_taken = false;
  bool ready = false;
  wire::HelloReply world;
};

Process& process() {
  static auto* it = new Process;  // never destroyed: threads and exit handlers may still call
  return *it;
}

thread_local Connection* t_connection = nullptr;
thread_local std::string t_failure;

struct ThreadExit {
  ~ThreadExit() {
    delete t_connection;
    t_connection = nullptr;
  }
};

bool receive_reply(Connection& c, wire::ReplyHeader& header, std::vector<uint8_t>& body) {
  for (;;) {
    const auto bytes = c.inbox.bytes();
    if (bytes.size() >= sizeof header) {
      std::memcpy(&header, bytes.data(), sizeof header);
      if (header.magic != wire::kMagic || header.bytes > wire::kMaxMessageBytes) return false;
      if (bytes.size() >= sizeof header + header.bytes) {
        const auto* from = bytes.data() + sizeof header;
        body.assign(from, from + header.bytes);
        c.inbox.consume(sizeof header + header.bytes);
        return header.sequence == c.sequence;
      }
    }
    if (c.inbox.receive(c.fd, true) != wire::Inbox::Got::kSome) return false;
  }
}

bool send_request(Connection& c, wire::Op op, std::span<const uint8_t> request, int fd) {
  wire::Header header;
  header.op = op;
  header.bytes = static_cast<uint32_t>(request.size());
  header.sequence = ++c.sequence;
  header.site = call_site();
  std::vector<uint8_t> all(sizeof header + request.size());
  std::memcpy(all.data(), &header, sizeof header);
  if (!request.empty()) std::memcpy(all.data() + sizeof header, request.data(), request.size());
  if (!c.is_main) return wire::send_all(c.fd, all, fd);
  const std::lock_guard lock(process().send);
  return wire::send_all(c.fd, all, fd);
}

// The VM is gone: nothing that this process computes can matter any more.
[[noreturn]] void lost() {
  static const char text[] = "sculler: the emulator closed the connection; this rank ends here\n";
  [[maybe_unused]] const auto n = ::write(2, text, sizeof text - 1);
  ::_exit(125);
}

void start() {
  Process& p = process();
  const char* text = std::getenv("SCULLER_VM_FD");
  char* end = nullptr;
  const long fd = text != nullptr ? std::strtol(text, &end, 10) : -1;
  if (text == nullptr || end == text || *end != '\0' || fd < 0 ||
      ::fcntl(static_cast<int>(fd), F_GETFD) < 0) {
    std::fprintf(stderr,
                 "sculler: no emulator: SCULLER_VM_FD names no open socket; start the program with "
                 "`sculler-vm --run N -- "
                 "PROGRAM`\n");
    return;
  }
  ::fcntl(static_cast<int>(fd), F_SETFD, FD_CLOEXEC);
  p.main_fd = static_cast<int>(fd);
  p.owner = ::getpid();
  p.main_taken = true;
  auto* c = new Connection;
  c->fd = p.main_fd;
  c->is_main = true;
  t_connection = c;
  wire::Hello hello;
  hello.pid = static_cast<uint32_t>(p.owner);
  wire::ReplyHeader header;
  std::vector<uint8_t> body;
  if (!send_request(*c, wire::Op::kHello, wire::encode(hello), -1) ||
      !receive_reply(*c, header, body) || header.status != kSuccess ||
      !wire::decode(body, p.world)) {
    lost();
  }
  set_up_ranges(p.world, c->inbox.take_fd());
  p.ready = true;
}

bool ready() {
  static std::once_flag once;
  std::call_once(once, start);
  return process().ready && process().owner == ::getpid();  // a forked child has no device
}

}  // namespace

Connection::~Connection() {
  if (!is_main && fd >= 0) ::close(fd);
}

Connection* connection() {
  if (!ready()) return nullptr;
  if (t_connection != nullptr) return t_connection;
  static thread_local ThreadExit on_exit;
  (void)&on_exit;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return nullptr;
  auto* c = new Connection;
  c->fd = pair[0];
  wire::Header header;
  header.op = wire::Op::kChannel;
  bool sent = false;
  {
    Process& p = process();
    const std::lock_guard lock(p.send);
    sent = wire::send_all(p.main_fd, {reinterpret_cast<const uint8_t*>(&header), sizeof header},
                          pair[1]);
  }
  ::close(pair[1]);
  if (!sent) lost();
  t_connection = c;
  return c;
}

int any_socket() {
  if (t_connection != nullptr) return t_connection->fd;
  return process().main_fd;
}

const wire::HelloReply* world() { return ready() ? &process().world : nullptr; }

const std::string& last_failure() { return t_failure; }

int exchange(wire::Op op, std::span<const uint8_t> request, std::vector<uint8_t>& reply, int fd) {
  Connection* c = connection();
  if (c == nullptr) return kNoDevice;
  if (request.size() > wire::kMaxMessageBytes) return kInvalidValue;
  wire::ReplyHeader header;
  if (!send_request(*c, op, request, fd) || !receive_reply(*c, header, reply)) lost();
  if (header.status != 0) {
    wire::FailureReply failure;
    t_failure = wire::decode(reply, failure) ? failure.message : std::string();
    reply.clear();
  }
  return header.status;
}

int unsupported(std::string_view function, std::string_view why) {
  std::fprintf(stderr, "sculler: UNSUPPORTED: %.*s%s%.*s\n", static_cast<int>(function.size()),
               function.data(), why.empty() ? "" : ": ", static_cast<int>(why.size()), why.data());
  wire::ReportUnsupported report;
  report.what = function;
  report.why = why;
  call(report);
  return kNotSupported;
}

int host_function(uint64_t stream, void (*function)(void*), void* argument) {
  static std::once_flag once;
  std::call_once(once, [] {
    if (connection() == nullptr) return;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    // Its connection is announced before the first function is, so that the VM knows whom to
    // expect.
    std::promise<void> announced;
    std::thread([&announced] {
      connection();
      announced.set_value();
      wire::HostFunctionNext next;
      wire::HostFunctionReply due;
      while (call(next, due) == kSuccess) {
        reinterpret_cast<void (*)(void*)>(due.function)(reinterpret_cast<void*>(due.argument));
        next.done = due.id;
      }
    }).detach();
    announced.get_future().wait();
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  });
  wire::HostFunction request;
  request.stream = stream;
  request.function = reinterpret_cast<uint64_t>(function);
  request.argument = reinterpret_cast<uint64_t>(argument);
  return call(request);
}

}  // namespace sculler::emu::client
