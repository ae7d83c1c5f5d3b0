"""Slurm's own daemons on this machine with made-up GPUs and the plugin job_submit/snug, for bench/admit.py."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-wlm"
TOOLS = ["slurmctld", "slurmd", "munged", "sbatch", "sinfo"]


def missing():
    gone = [tool for tool in TOOLS if not shutil.which(tool)]
    if gone:
        return f"{', '.join(gone)} is not there"
    return None if os.geteuid() == 0 else "only the superuser may start them"


class Slurm:
    """A controller and a node in a folder of their own. `devices`: types of GPUs, eight of each."""

    def __init__(self, build, devices, said):
        self.here = pathlib.Path(tempfile.mkdtemp(prefix="snug-slurm."))
        self.environment = {**os.environ, "SLURM_CONF": str(self.here / "slurm.conf"), "SNUG_PROGRAM": f"{build}/snug"}
        self.here.chmod(0o755)
        for folder in ("state", "spool", "plugins", "devices"):
            (self.here / folder).mkdir()
        shutil.copy(f"{build}/slurm/job_submit_snug.so", self.here / "plugins")
        (self.here / "snug-admit.yaml").write_text(said)
        self._write(devices)
        self._start()

    def _write(self, devices):
        host, here = socket.gethostname(), self.here
        port = 20000 + 2 * (os.getpid() % 15000)
        gres = ",".join(f"gpu:{name}:8" for name in devices)
        (here / "slurm.conf").write_text(f"""ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={here}/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/slurmd.log
SlurmctldPort={port}
SlurmdPort={port + 1}
ReturnToService=2
MessageTimeout=90
PluginDir={here}/plugins:{PLUGINS}
JobSubmitPlugins=snug
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} Gres={gres} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
""")
        lines = []
        for kind, name in enumerate(devices):
            for i in range(8):
                (here / f"devices/gpu{8 * kind + i}").touch()
            lines.append(f"Name=gpu Type={name} File={here}/devices/gpu[{8 * kind}-{8 * kind + 7}]\n")
        (here / "gres.conf").write_text("".join(lines))

    def _start(self):
        here = self.here
        (here / "munge.key").write_bytes(os.urandom(128))
        (here / "munge.key").chmod(0o600)
        subprocess.run(["munged", "--force", f"--key-file={here}/munge.key", f"--socket={here}/munge.socket",
                        f"--pid-file={here}/munged.pid", f"--log-file={here}/munged.log",
                        f"--seed-file={here}/munge.seed"], check=True, stderr=subprocess.DEVNULL)
        for daemon in ("slurmctld", "slurmd"):
            subprocess.run([daemon], env=self.environment, check=True)
        for _ in range(150):
            got = subprocess.run(["sinfo", "-h", "-o", "%t"], env=self.environment, capture_output=True, text=True)
            if got.stdout.startswith("idle"):
                return
            time.sleep(0.2)
        self.close()
        raise SystemExit("Slurm's daemons don't start here")

    def submit(self, arguments, script):
        """Exit code, what was said, seconds."""
        (self.here / "job.sh").write_text(script)
        began = time.monotonic()
        got = subprocess.run(["sbatch", "--hold", *arguments[:-1], "job.sh", *arguments[-1]], cwd=self.here,
                             env=self.environment, capture_output=True, text=True, timeout=100)
        return got.returncode, got.stdout + got.stderr, time.monotonic() - began

    def close(self):
        subprocess.run(["scancel", "-u", "root"], env=self.environment, stderr=subprocess.DEVNULL)
        for name in ("slurmd", "slurmctld", "munged"):
            file = self.here / f"{name}.pid"
            if file.exists():
                os.kill(int(file.read_text()), signal.SIGTERM)
        time.sleep(1)
        shutil.rmtree(self.here, ignore_errors=True)
