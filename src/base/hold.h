// Points at which a test can catch a process in order to kill it there. Without the variable
// SCULLER_HOLD a point costs one comparison.
#pragma once

#include <string_view>

namespace sculler {

// SCULLER_HOLD=POINT:N:FILE: the N-th pass (from 1) of the point in a process makes FILE (once:
// where it is there already nothing happens) and then waits until FILE.go is there, at most 20 s,
// so that whoever waits for FILE finds the process there. Points: "spooled" (evaluator: a verdict
// is durable and not answered yet), "attempt" and "evaluation" (orchestrator: written, its
// transaction not committed), "import" (orchestrator: before the commit of what the spool held),
// "best" (before best/ is written), "checkpoint" (ranks of a training: an epoch's is durable).
void hold_point(std::string_view name);

}  // namespace sculler
