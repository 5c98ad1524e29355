#include "emu/server/job_mode.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/strings.h"
#include "emu/predict/job.h"
#include "emu/server/operations.h"
#include "emu/server/report.h"
#include "verify/reference.h"
#include "verify/socket_ranks.h"

namespace sculler::emu {

using rank::Kind;
using rank::Message;

VmRanks::VmRanks(const verify::JobSpec& job, Machine& machine, const Observer* observer,
                 Server& server, std::vector<rank::UniqueFd> control)
    : job_(job), machine_(machine), observer_(observer), server_(server), ranks_(control.size()) {
  for (std::size_t r = 0; r < control.size(); ++r) {
    ::fcntl(control[r].get(), F_SETFL, ::fcntl(control[r].get(), F_GETFL) | O_NONBLOCK);
    ranks_[r].socket = std::move(control[r]);
  }
}

Status VmRanks::send(int rank, const Message& message, int fd) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  // Between Welcome and SetUniqueId the other ranks wait for rank 0 without a word.
  const bool waits_on = message.kind == Kind::kWelcome && job_.workload && rank != 0;
  server_.set_waiting_outside(rank, waits_on);
  if (message.kind == Kind::kSetup || message.kind == Kind::kTeardown)
    server_.reseed(static_cast<uint64_t>(message.kind));
  return rank::send_message(r.socket.get(), message, fd);
}

// Does the rank wait for an answer after this message? (docs/internals.md, order of a job)
void VmRanks::update_waiting(int rank, const Message& message) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  switch (message.kind) {
    case Kind::kHello:
    case Kind::kUniqueId:
    case Kind::kReady:
    case Kind::kDone:
    case Kind::kFault:
    case Kind::kBye: server_.set_waiting_outside(rank, true); break;
    case Kind::kPool:
      if (++r.pools == job_.n_sets * static_cast<int>(job_.buffers.size()))
        server_.set_waiting_outside(rank, true);
      break;
    default: break;
  }
}

void VmRanks::read(int rank) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  while (!r.closed) {
    rank::Packet packet = rank::receive_message(r.socket.get(), true);
    if (packet.kind == rank::Packet::Kind::kEmpty) return;
    Event event;
    event.rank = rank;
    event.received_ns = verify::monotonic_ns();
    switch (packet.kind) {
      case rank::Packet::Kind::kClosed:
        r.closed = true;
        event.kind = Event::Kind::kClosed;
        server_.set_waiting_outside(rank, true);
        break;
      case rank::Packet::Kind::kMalformed: event.kind = Event::Kind::kMalformed; break;
      default:
        event.kind = Event::Kind::kMessage;
        event.message = packet.message;
        event.fd = std::move(packet.fd);
        update_waiting(rank, packet.message);
        break;
    }
    r.events.push_back(std::move(event));
  }
}

verify::Ranks::Event VmRanks::receive(uint64_t deadline_ns) {
  const auto stopped = [](verify::Outcome outcome) {
    Event event;
    event.kind = Event::Kind::kStopped;
    event.outcome = std::move(outcome);
    return event;
  };
  for (;;) {
    std::vector<pollfd> polled;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      read(static_cast<int>(r));
      if (!ranks_[r].closed) polled.push_back({ranks_[r].socket.get(), POLLIN, 0});
    }
    // A fault has broken its rank's context: what follows there is noise.
    if (!machine_.faults().empty()) {
      if (auto found = judge(machine_, observer_, server_, job_.n_ranks))
        return stopped(std::move(*found));
    }
    for (int r = 0; r < job_.n_ranks; ++r) {
      if (server_.report(r).host_access.empty() && server_.report(r).unsupported.empty()) continue;
      if (auto found = judge(machine_, observer_, server_, job_.n_ranks))
        return stopped(std::move(*found));
    }
    // Messages are handed over when every rank has settled, in rank order: so their order is the
    // seed's as well.
    if (server_.settled()) {
      for (Rank& r : ranks_) {
        if (r.events.empty()) continue;
        Event event = std::move(r.events.front());
        r.events.pop_front();
        return event;
      }
    }
    const uint64_t now = verify::monotonic_ns();
    if (now >= deadline_ns) {
      for (Rank& r : ranks_) {  // what a rank that did not settle has said is still said
        if (r.events.empty()) continue;
        Event event = std::move(r.events.front());
        r.events.pop_front();
        return event;
      }
      return {};
    }
    const int left_ms =
        static_cast<int>(std::min<uint64_t>((deadline_ns - now) / 1'000'000 + 1, 100));
    switch (server_.step(left_ms, polled)) {
      case Server::Step::kProgress:
      case Server::Step::kInput: break;
      case Server::Step::kGone: {
        // Ranks that have not connected yet, or none that will: only the control sockets can say.
        ::poll(polled.data(), polled.size(), std::min(left_ms, 20));
        break;
      }
      case Server::Step::kStuck: {
        bool quiet = true;
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
          read(static_cast<int>(r));
          quiet &= ranks_[r].events.empty();
        }
        if (quiet && server_.settled()) {
          if (auto found = judge(machine_, observer_, server_, job_.n_ranks))
            return stopped(std::move(*found));
          return stopped(deadlock(machine_, observer_));
        }
        break;
      }
    }
  }
}

VmDevice::VmDevice(const verify::JobSpec& job, verify::Reference& reference, Machine& machine,
                   Observer* observer, Server& server, Footprint* footprint)
    : HostDevice(job, reference),
      machine_(machine),
      observer_(observer),
      history_(dynamic_cast<const WriteHistory*>(observer)),
      server_(server),
      footprint_(footprint) {}

Result<void*> VmDevice::map(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
                            rank::UniqueFd) {
  const Allocation* a = machine_.pointer_info(address);
  if (a == nullptr || !a->live || a->rank != rank ||
      (a->kind != Allocation::Kind::kDevice && a->kind != Allocation::Kind::kNccl) ||
      address < a->begin || bytes > a->bytes || address - a->begin > a->bytes - bytes) {
    return fail(ErrorCode::kProtocol, "rank " + std::to_string(rank) +
                                          " announced a buffer that is not its own device memory");
  }
  if (address - a->begin == job_.shift) {
    if (Allocation* named = machine_.memory().find(a->begin)) {
      named->name = "set " + std::to_string(set) + " buffer " +
                    job_.buffers[static_cast<std::size_t>(buffer)].name;
    }
  }
  return reinterpret_cast<void*>(address);
}

void VmDevice::written(int rank, void* data, uint64_t bytes, bool poison) {
  const auto address = reinterpret_cast<Address>(data);
  if (poison) {
    // Poisoned is as good as fresh: whoever reads it before somebody wrote it reads nothing.
    if (observer_ != nullptr) observer_->allocated(rank, address, bytes, false);
    return;
  }
  machine_.harness_touch(rank, Access::kStore, address, bytes);
}

void VmDevice::region_opens(int iteration, int set) {
  set_ = set;
  machine_.harness_join();
  // The prediction is made from the last iteration.
  machine_.trace_clear();
  if (footprint_ != nullptr) footprint_->clear();
  for (int r = 0; r < job_.n_ranks; ++r) machine_.trace_mark(r, "opened");
  server_.reseed(0x1000 + static_cast<uint64_t>(iteration));
}

std::optional<verify::Outcome> VmDevice::region_closed(int) {
  // A rank's outputs are final when its stream completes, its peers' stores included: they must
  // have happened before what its own host does then, without any help of ours.
  for (int r = 0; r < job_.n_ranks && observer_ != nullptr; ++r) {
    for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
      const verify::BufferSpec& buffer = job_.buffers[b];
      if (buffer.role != verify::Role::kOutput && buffer.role != verify::Role::kInOut) continue;
      const void* data = at(r, set_, static_cast<int>(b));
      if (data != nullptr)
        machine_.harness_touch(r, Access::kLoad, reinterpret_cast<Address>(data), buffer.bytes);
    }
  }
  machine_.harness_join();
  return judge(machine_, observer_, server_, job_.n_ranks);
}

namespace {

verify::Outcome internal(const Error& error) {
  verify::Outcome outcome;
  outcome.status = verify::status::kInternal;
  outcome.message = error.text();
  return outcome;
}

std::string counters(const Machine& machine, Server& server) {
  nlohmann::json json;
  auto& engine = const_cast<Machine&>(machine).engine();
  json["warp_instructions"] = engine.instructions();
  json["api_calls"] = server.served();
  json["host_collectives"] = machine.host_collectives();
  json["replays"] = server.deterministic();
  return dump_json(json);
}

verify::Outcome play(const verify::JobSpec& job, const VmOptions& options,
                     std::vector<rank::UniqueFd> control, std::vector<rank::UniqueFd> sockets) {
  auto reference = verify::Reference::load(job);
  if (!reference) return internal(reference.error());
  auto vm = make_vm(options, job.n_ranks, true);
  if (!vm) return internal(vm.error());
  Machine& machine = *(*vm)->machine;
  Observer* observer = (*vm)->observer.get();
  // What kernels print is shown, within bounds; nobody believes it.
  machine.engine().on_print = [left = std::size_t{64} << 10](int rank,
                                                             std::string_view text) mutable {
    text = text.substr(0, left);
    left -= text.size();
    if (!text.empty())
      std::fprintf(stderr, "rank %d: %.*s", rank, static_cast<int>(text.size()), text.data());
  };
  ServerConfig server_config;
  server_config.schedule = options.schedule;
  server_config.multicast_allowed = machine.properties().multicast;
  Server server(machine, server_config, job.n_ranks);
  for (int r = 0; r < job.n_ranks; ++r)
    server.attach(r, std::move(sockets[static_cast<std::size_t>(r)]));
  VmRanks ranks(job, machine, observer, server, std::move(control));
  VmDevice device(job, **reference, machine, observer, server, (*vm)->footprint.get());
  verify::Outcome outcome = run_session(job, ranks, device);

  // A rank that died or failed to launch says less than the machine knows.
  if (outcome.status == verify::status::kPassed || outcome.status == verify::status::kCrash ||
      outcome.status == verify::status::kLaunchError) {
    if (auto found = judge(machine, observer, server, job.n_ranks)) {
      found->iterations = std::move(outcome.iterations);
      outcome = std::move(*found);
    }
  }
  if (outcome.status == verify::status::kLaunchError) add_launch(machine, server, outcome);
  if (outcome.findings.empty() && observer != nullptr) {
    outcome.findings = describe(machine, observer->findings());
  }
  if (observer != nullptr) outcome.sync_hash = hex(observer->sync_hash());
  outcome.schedule = schedule_text(options.schedule);
  outcome.counters_json = counters(machine, server);
  // The profile has no rates of a network: a prediction would take what GIN moves for nothing.
  if (outcome.status == verify::status::kPassed && machine.gin_puts() > 0) {
    std::fprintf(stderr, "no prediction: GIN moves data, and the profile has no rates for it\n");
  } else if (outcome.status == verify::status::kPassed) {
    auto predicted = predict_job(job.emu_json, machine.trace(), job.n_ranks, real_files());
    if (!predicted) std::fprintf(stderr, "no prediction: %s\n", predicted.error().text().c_str());
    else if (*predicted) outcome.predicted_json = (*predicted)->json;
    if ((*vm)->footprint != nullptr) {
      const bool timed = predicted && *predicted;
      outcome.trace_json =
          operations_json(machine, *(*vm)->footprint, timed ? &(*predicted)->prediction : nullptr,
                          predicted ? std::string() : predicted.error().text());
    }
  }
  return outcome;
}

Result<std::vector<rank::UniqueFd>> vm_sockets(const char* list, int n_ranks) {
  if (list == nullptr) {
    return fail(ErrorCode::kUsage, "SCULLER_VM_FDS is not set",
                "start this program through sculler-eval");
  }
  std::vector<rank::UniqueFd> sockets;
  for (const std::string_view part : split(list, ',')) {
    const auto number = parse_int(part);
    int type = 0;
    socklen_t size = sizeof type;
    if (!number || *number < 3 || *number > 1 << 20 ||
        ::getsockopt(static_cast<int>(*number), SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
      return fail(ErrorCode::kUsage, "SCULLER_VM_FDS: '" + std::string(part) + "' is no socket");
    }
    const int fd = static_cast<int>(*number);
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    sockets.emplace_back(fd);
  }
  if (static_cast<int>(sockets.size()) != n_ranks) {
    return fail(ErrorCode::kUsage, "SCULLER_VM_FDS names " + std::to_string(sockets.size()) +
                                       " sockets for " + std::to_string(n_ranks) + " ranks");
  }
  return sockets;
}

}  // namespace

int run_job(const std::string& path) {
  const auto answer = [](const verify::Outcome& outcome) {
    std::printf("%s\n", verify::print_outcome(outcome).c_str());
    return std::fflush(stdout) == 0 ? 0 : 1;
  };
  auto text = real_files().read(path);
  if (!text) return answer(internal(text.error()));
  auto job = verify::parse_job(*text);
  if (!job) return answer(internal(job.error()));
  if (job->target != verify::Target::kEmu || job->mode != verify::Mode::kCheck ||
      job->n_ranks < 1 || job->n_ranks > static_cast<int>(kMaxRanks)) {
    return answer(internal(Error{ErrorCode::kBadInput,
                                 "this program runs jobs of target emu, mode check, 1 to 16 ranks",
                                 path, "target", "start sculler-verify for other targets"}));
  }
  auto options = parse_vm_options(job->emu_json, path);
  if (!options) return answer(internal(options.error()));
  auto control = verify::inherited_sockets(std::getenv("SCULLER_CONTROL_FDS"), job->n_ranks);
  if (!control) return answer(internal(control.error()));
  auto sockets = vm_sockets(std::getenv("SCULLER_VM_FDS"), job->n_ranks);
  if (!sockets) return answer(internal(sockets.error()));
  return answer(play(*job, *options, std::move(*control), std::move(*sockets)));
}

}  // namespace sculler::emu
