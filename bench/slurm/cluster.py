"""A real Slurm of several nodes on this machine: its own munged, slurmctld and one slurmd a node, own folder, own ports.

Nothing of a system's Slurm is touched. Every daemon is a child of this process and dies with it.
"""
import ctypes, os, shutil, signal, socket, subprocess, tempfile, time
from pathlib import Path

PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sinfo", "squeue", "scancel", "scontrol"]
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None, use_errno=True)


class CannotStart(Exception):
    """Why there is no cluster here."""


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    try:
        for s in held:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in held]
    finally:
        for s in held:
            s.close()


def processes():
    """pid → (parent, command line) of every process that can be seen."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_text()
            words = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        state, parent = stat[stat.rindex(")") + 2:].split()[:2]
        if state != "Z":
            found[int(entry)] = (int(parent), words)
    return found


def below(pid):
    table, found, front = processes(), [], [pid]
    while front:
        children = [p for p, (parent, _) in table.items() if parent in front]
        found += children
        front = children
    return found


class Cluster:
    def __init__(self, nodes=4, cpus=2, slurmd_timeout=10):
        missing = [p for p in PROGRAMS if not find(p)]
        if missing:
            raise CannotStart(f"{', '.join(missing)} not found: install slurm-wlm and munge")
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what loses its parent can still be found
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.folder = Path(tempfile.mkdtemp(prefix="sculler_slurm_"))
        self.folder.chmod(0o711)
        self.children = {}
        try:
            self._configure(cpus, slurmd_timeout)
            self._start()
        except BaseException:
            self.stop()
            raise

    def _configure(self, cpus, slurmd_timeout):
        for name in ("munge", "state", "spool", "log"):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        ports = free_ports(1 + len(self.nodes))
        host = socket.gethostname().split(".")[0]
        user = "root" if os.getuid() == 0 else os.environ.get("USER", str(os.getuid()))
        at = self.folder
        lines = [
            "ClusterName=sculler", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={ports[0]}", f"SlurmUser={user}", f"SlurmdUser={user}",
            "AuthType=auth/munge", f"AuthInfo=socket={at}/munge/socket", "CredType=cred/munge", f"StateSaveLocation={at}/state",
            f"SlurmdSpoolDir={at}/spool/%n", f"SlurmctldPidFile={at}/slurmctld.pid", f"SlurmdPidFile={at}/%n.pid",
            f"SlurmctldLogFile={at}/log/slurmctld", f"SlurmdLogFile={at}/log/%n", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "ReturnToService=2", "SwitchType=switch/none", "MpiDefault=none",
            f"SlurmdTimeout={slurmd_timeout}", "SlurmctldTimeout=10", "KillWait=2", "MessageTimeout=5",
            "SchedulerParameters=sched_interval=2,bf_interval=2",
            f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP"]
        lines += [f"NodeName={n} NodeHostName={host} NodeAddr=127.0.0.1 Port={p} CPUs={cpus} State=UNKNOWN" for n, p in zip(self.nodes, ports[1:])]
        self.conf = at / "slurm.conf"
        self.conf.write_text("\n".join(lines) + "\n")
        self.env = dict(os.environ, SLURM_CONF=str(self.conf))
        for name in [n for n in self.env if n.startswith("SLURM_") and n != "SLURM_CONF"]:
            del self.env[name]  # an allocation that this process may be in is another cluster's

    def _spawn(self, name, *argv):
        log = open(self.folder / "log" / (name + ".out"), "ab")
        self.children[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd="/",
                                               preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        log.close()

    def _start(self):
        m = self.folder / "munge"
        self._spawn("munged", find("munged"), "--foreground", "--force", f"--key-file={m}/key", f"--socket={m}/socket", f"--pid-file={m}/pid",
                    f"--log-file={m}/log", f"--seed-file={m}/seed")
        self._wait(lambda: (m / "socket").exists(), 10, "munged makes no socket")
        self.start_slurmctld()
        for n in self.nodes:
            self.start_slurmd(n)
        self._wait(lambda: self.states() and all(s.startswith("idle") and not s.endswith("*") for s in self.states().values()), 20, "nodes are not idle")

    def _wait(self, ready, seconds, what):
        end = time.monotonic() + seconds
        while not ready():
            dead = [n for n, c in self.children.items() if c.poll() is not None]
            if dead or time.monotonic() > end:
                words = "".join(f.read_text(errors="replace")[-300:] for f in sorted((self.folder / "log").glob("*.out")))
                raise CannotStart(f"{', '.join(dead) + ' ended' if dead else what}: {' '.join(words.split()) or self.states()}")
            time.sleep(0.05)

    def start_slurmctld(self):
        self._spawn("slurmctld", find("slurmctld"), "-D", "-f", str(self.conf))

    def start_slurmd(self, node):
        self._spawn(node, find("slurmd"), "-D", "-N", node, "-f", str(self.conf))

    def kill(self, name):
        """SIGKILL to one daemon; the steps of a slurmd go on."""
        self.children[name].kill()
        self.children[name].wait()

    def kill_node(self, node):
        """As a node that loses its power: slurmd, its steps and all that runs in them."""
        victims = below(self.children[node].pid)
        for pid, (_, words) in processes().items():  # a slurmstepd may have lost its slurmd
            if words.startswith("slurmstepd") and pid not in victims and self._node_of(pid) == node:
                victims += [pid] + below(pid)
        self.kill(node)
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(victims)

    @staticmethod
    def _node_of(pid):
        for p in [pid] + below(pid):
            try:
                for entry in Path(f"/proc/{p}/environ").read_bytes().split(b"\0"):
                    if entry.startswith(b"SLURMD_NODENAME="):
                        return entry.split(b"=", 1)[1].decode()
            except OSError:
                pass
        return ""

    def command(self, *argv, timeout=20):
        try:
            return subprocess.run([find(argv[0]), *argv[1:]], env=self.env, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", "timed out")

    def states(self):
        lines = self.command("sinfo", "--noheader", "--Node", "--format=%N %T").stdout.split("\n")
        return dict(line.split()[:2] for line in lines if line.strip())

    def jobs(self):
        """[(job id, node, name)] of what runs."""
        lines = self.command("squeue", "--noheader", "--states=RUNNING", "--format=%i %N %j").stdout.split("\n")
        return [tuple(line.split()[:3]) for line in lines if len(line.split()) >= 3]

    def all_jobs(self):
        return self.command("squeue", "--noheader", "--format=%i %T %N").stdout.split("\n")[:-1]

    def stop(self):
        if self.children.get("slurmctld") and self.children["slurmctld"].poll() is None and self.conf.exists():
            self.command("scancel", "--quiet", "--user", str(os.getuid()), timeout=5)
        for _ in range(50):  # what forks meanwhile is found the next time
            left = below(os.getpid())
            if not left:
                break
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for child in self.children.values():
                child.poll()
            while True:
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break
            time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)
