// Force-included where a candidate is built with run-time tunables: -D'CHUNKS=ladder_tunable("CHUNKS",4)'. The ladder
// program exports the function and answers from the candidate's line in its arguments.
extern "C" int ladder_tunable(const char* name, int otherwise);
