// What a call of a model costs this side: a local endpoint that answers after a while, many calls
// in flight, through the whole provider (choice, budget, HTTP, stream, checks).
//   bench_llm_calls [CALLS] [IN_FLIGHT] [ENDPOINT_MS] [PROMPT_BYTES]
// One JSON object: calls a second, CPU a call without the endpoint's, peak memory.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "fakes/http_server.h"
#include "llm/make.h"

using namespace sculler;
using namespace sculler::llm;

namespace {

// A stream of 40 pieces, as of a model that writes a diff. Scripted.
std::string stream() {
  std::string out;
  for (int i = 0; i < 40; ++i)
    out += R"(data: {"choices":[{"index":0,"delta":{"content":"some words of an answer, "}}]})"
           "\n\n";
  return out +
         "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],"
         "\"usage\":{\"prompt_tokens\":2000,\"completion_tokens\":200}}\n\ndata: [DONE]\n\n";
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int argument(char** argv, int argc, int at, int otherwise) {
  return argc > at ? std::atoi(argv[at]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argument(argv, argc, 1, 1000), in_flight = argument(argv, argc, 2, 64),
            wait_ms = argument(argv, argc, 3, 1000), bytes = argument(argv, argc, 4, 8000);
  // The endpoint is a process of its own, so that its CPU is not counted.
  int to_parent[2], to_child[2];
  if (pipe(to_parent) != 0 || pipe(to_child) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    close(to_child[1]);
    const std::string body = stream();
    const std::string head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n";
    fakes::HttpServer server([&](fakes::Connection& c, const fakes::Received&) {
      if (wait_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      c.send(head + body);
    });
    const std::string url = server.url();
    if (write(to_parent[1], url.data(), url.size()) < 0) _exit(1);
    char end = 0;
    (void)!read(to_child[0], &end, 1);
    _exit(0);
  }
  char url[100] = "";
  if (read(to_parent[0], url, sizeof url - 1) <= 0) return 1;

  Settings settings;
  Model model;
  model.name = "endpoint";
  model.provider = "openai";
  model.url = url;
  model.price_in = 1;
  model.price_out = 2;
  settings.models = {model};
  settings.parallel = in_flight;
  settings.max_usd = 1e6;
  const double before = cpu_seconds();
  const int64_t start = real_clock().now_ns();
  auto provider = make_provider(settings, {real_files(), real_clock(), real_processes()});
  if (!provider) {
    std::fprintf(stderr, "%s\n", provider.error().text().c_str());
    return 1;
  }
  std::atomic<int> next{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < in_flight; ++t) {
    threads.emplace_back([&] {
      for (int i = next++; i < calls; i = next++) {
        Request request;
        request.role = "mutator";
        request.index = i;
        request.messages = {{"system", "You write kernels."},
                            {"user", std::string(static_cast<std::size_t>(bytes), 'x')}};
        if (!(*provider)->ask(request)) ++failed;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const double seconds = static_cast<double>(real_clock().now_ns() - start) / 1e9;
  const double cpu = cpu_seconds() - before;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"calls\":%d,\"in_flight\":%d,\"endpoint_ms\":%d,\"prompt_bytes\":%d,\"failed\":%d,"
      "\"calls_per_s\":%.1f,\"cpu_us_per_call\":%.0f,\"peak_rss_mb\":%.1f}\n",
      calls, in_flight, wait_ms, bytes, failed.load(), calls / seconds, cpu * 1e6 / calls,
      static_cast<double>(usage.ru_maxrss) / 1024);
  close(to_child[1]);
  waitpid(child, nullptr, 0);
  return failed == 0 ? 0 : 1;
}
