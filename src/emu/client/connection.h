// The calling thread's connection to the VM and what the process knows about it; internal to the
// client library.
#pragma once

#include <cstdint>
#include <string_view>

#include "emu/wire/message.h"
#include "emu/wire/socket.h"

namespace sculler::emu::client {

struct Connection {
  int fd = -1;
  bool is_main = false;
  uint32_t sequence = 0;
  wire::Inbox inbox;
  ~Connection();
};

// Null where there is no VM. Makes a connection of its own for every thread but the first.
Connection* connection();
// For the fault handler: the thread's descriptor if it has one, else the process's, else -1.
// Async-signal-safe.
int any_socket();

// True for the loader's name of the candidate.
bool is_candidate(const char* path);
// Offsets in the candidate of the calls that lead here, innermost first; none (0) where the
// candidate does not call.
wire::Site call_site();

// Maps the rank's host memory, reserves the device ranges and installs the fault handler
// (ranges.cpp).
void set_up_ranges(const wire::HelloReply& world, int host_fd);

}  // namespace sculler::emu::client
