// A program that leaves nothing behind, however it is killed: it runs as two processes. The
// guardian adopts whatever loses its parent below it and, when the worker ends, kills all of that;
// the worker does the same when the guardian goes away. A process that was started below the pair
// has no way out: not by setsid, not by forking twice, not by an environment of its own.
// docs/internals.md, "Nothing is left behind".
#pragma once

#include <functional>

namespace sculler {

// Splits this process before it has threads. Returns in the worker; the guardian never returns: it
// passes SIGINT, SIGTERM, SIGHUP and SIGQUIT on and ends as the worker did, once everything below
// is dead. `after` runs last in whichever of the two is left. Where fork fails the program goes on
// unguarded. `name` (15 characters count) is the guardian's name in the process table, so that a
// kill by the program's name leaves it to clean up.
void run_guarded(const char* name, const std::function<void()>& after);

// From here on spawn() of real_processes() fails; one in progress on another thread is waited for.
void stop_spawning();
// True from then on: what children that died since say about their work is worth nothing.
[[nodiscard]] bool spawning_stopped();

// For the worker: kills everything below this process for good (no spawn() succeeds any more), then
// `last` and _exit(code).
[[noreturn]] void end_with_all(int code, const std::function<void()>& last);

}  // namespace sculler
