"""What every adapter shares: the JSON lines of docs/external.md, buffers as files, refusals with a status.

An adapter is a class with the methods of `Adapter`; `serve(adapter)` answers on stdin and stdout until `bye` or the end of input.
"""
import json
import linecache
import os
import sys
import traceback

PROTOCOL = 1
LONGEST_REQUEST = 4 << 20
WIDTH = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2}


class Refusal(Exception):
    """What the evaluator is told instead of an answer: a status of docs/external.md and why."""

    def __init__(self, status, message, where="", advice=""):
        super().__init__(message)
        self.status, self.message, self.where, self.advice = status, message, where, advice


class Buffer:
    """One buffer of a set: name, role, dtype, elements, row_elements, bytes; `file` holds its input."""

    def __init__(self, request):
        self.name, self.role, self.dtype = request["name"], request["role"], request["dtype"]
        self.elements, self.row_elements = request["elements"], request["row_elements"]
        self.bytes, self.file = request["bytes"], request.get("file", "")
        self.poison = request.get("poison", 0)
        if self.dtype not in WIDTH or self.bytes != self.elements * WIDTH[self.dtype]:
            raise Refusal("UNSUPPORTED", f"buffer {self.name}: {self.bytes} bytes of {self.dtype}")

    def poisoned(self):
        """The bytes of an output that nobody has written: a NaN that arithmetic does not make."""
        return self.poison.to_bytes(WIDTH[self.dtype], "little") * self.elements

    def is_input(self):
        return self.role in ("input", "inout")

    def is_output(self):
        return self.role in ("output", "inout")

    def read(self):
        with open(self.file, "rb") as file:
            data = file.read()
        if len(data) != self.bytes:
            raise Refusal("INTERNAL", f"{self.file} has {len(data)} bytes, not {self.bytes}")
        return data

    def write(self, folder, data):
        with open(os.path.join(folder, self.name + ".bin"), "xb") as file:
            file.write(data)


class Adapter:
    """What an adapter must do. `programs` and `sets` are its own to fill."""

    name, version, device = "", "", ""
    capabilities, does = [], []

    def compile(self, program, sources, defines, task):
        """`sources`: [(name, path)], the first is the program. Returns facts, {word: integer}."""
        raise NotImplementedError

    def load(self, number, dims, buffers):
        """Inputs of set `number`; the evaluator may load one again with other contents or dimensions."""
        raise NotImplementedError

    def verify(self, program, number):
        """One run on poisoned outputs."""
        raise NotImplementedError

    def benchmark(self, program, order, cold):
        """A run for each set of `order`, outputs poisoned before each. Returns microseconds, one a run."""
        raise NotImplementedError

    def outputs(self, program, number, folder):
        """Writes what the last run left in the outputs of a set, `folder`/NAME.bin each."""
        raise NotImplementedError

    def profile(self, program, number):
        """Returns {"bottleneck": memory, compute or latency, "why": ..., "remarks": [...], "facts": {}}."""
        raise Refusal("UNSUPPORTED", "this adapter gives no profile")


class Missing(Adapter):
    """Stands in for an adapter whose packages are not there: says so, whatever is asked."""

    def __init__(self, name, what, cure):
        self.name, self.what, self.cure = name, what, cure

    def refuse(self):
        raise Refusal("UNSUPPORTED", f"the adapter {self.name} cannot run here: {self.what}", "", self.cure)


def where_of(error, names):
    """"candidate.py:12" of the innermost frame of an exception that lies in a candidate's file."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{os.path.basename(error.filename)}:{error.lineno or 0}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.basename(frame.filename) in names:
            return f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return ""


def load_module(sources, defines, entry):
    """Runs a candidate's text as a module and returns it; tunables get their values where the text assigns them.

    Each `defines` entry replaces the line `NAME = VALUE` below its `# sculler:tune NAME in {...}`.
    """
    import types
    name, path = sources[0]
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    for at, line in enumerate(lines[:-1]):
        words = line.strip().lstrip("#").split()
        if line.lstrip().startswith("#") and len(words) >= 3 and words[0] == "sculler:tune" and words[1] in defines:
            lines[at + 1] = f"{words[1]} = {defines[words[1]]}\n"
    module = types.ModuleType("candidate")
    module.__file__ = path
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # What reads a function's source, as Triton does, finds the lines that ran.
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    try:
        exec(compile("".join(lines), name, "exec"), module.__dict__)
    except Exception as error:
        raise Refusal("COMPILE_ERROR", f"{type(error).__name__}: {error}", where_of(error, {name}),
                      "Correct the line named; the text is run once to define its functions.") from error
    finally:
        sys.path.remove(folder)
    if not callable(getattr(module, entry, None)):
        raise Refusal("COMPILE_ERROR", f"the program defines no function {entry}", name,
                      f"Define {entry} as the adapter's README says.")
    return module


def call(function, *arguments, names=("candidate.py",)):
    """A candidate's function, its exceptions as refusals."""
    try:
        return function(*arguments)
    except Refusal:
        raise
    except MemoryError as error:
        raise Refusal("OOM", f"out of memory: {error}", where_of(error, names)) from error
    except Exception as error:
        raise Refusal("CRASH", f"{type(error).__name__}: {error}", where_of(error, names),
                      "The function ended with an exception.") from error


def answer(adapter, request):
    op = request["op"]
    if isinstance(adapter, Missing) and op != "bye":
        adapter.refuse()
    if op == "hello":
        if request["protocol"] != PROTOCOL:
            raise Refusal("UNSUPPORTED", f"protocol {request['protocol']} is not spoken here, {PROTOCOL} is")
        return {"protocol": PROTOCOL, "name": adapter.name, "version": adapter.version, "device": adapter.device,
                "capabilities": adapter.capabilities, "does": adapter.does}
    if op == "compile":
        sources = [(name, os.path.join(request["folder"], name)) for name in request["files"]]
        return {"facts": adapter.compile(request["program"], sources, request["defines"], request["task"]) or {}}
    if op == "load":
        adapter.load(request["set"], request["dims"], [Buffer(b) for b in request["buffers"]])
        return {}
    if op == "verify":
        adapter.verify(request["program"], request["set"])
        adapter.outputs(request["program"], request["set"], request["folder"])
        return {}
    if op == "benchmark":
        return {"us": adapter.benchmark(request["program"], request["order"], request["cold"])}
    if op == "outputs":
        adapter.outputs(request["program"], request["set"], request["folder"])
        return {}
    if op == "profile":
        return adapter.profile(request["program"], request["set"])
    if op == "bye":
        return {}
    raise Refusal("UNSUPPORTED", f"unknown request {op!r}")


def serve(adapter):
    """Answers until `bye`. What a candidate prints goes to stderr, not into the channel."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    while True:
        line = requests.readline(LONGEST_REQUEST)
        if not line:
            return
        request = json.loads(line)
        try:
            reply = {"ok": True, **answer(adapter, request)}
        except Refusal as refusal:
            reply = {"ok": False, "status": refusal.status, "message": refusal.message, "where": refusal.where,
                     "advice": refusal.advice}
        except Exception as error:
            traceback.print_exc()
            reply = {"ok": False, "status": "INTERNAL", "message": f"{type(error).__name__}: {error}"}
        channel.write(json.dumps({"id": request["id"], **reply}) + "\n")
        channel.flush()
        if request["op"] == "bye":
            return
