"""A stack of small real processes under the real supervisor. Usage: python small_stack.py HOME [UNTIL_PID]."""

from __future__ import annotations

import sys
from pathlib import Path

from millrace.environment.home import Home
from millrace.local.stack.loopback import HOST, answers, any_free
from millrace.local.stack.service import Service
from millrace.local.stack.supervisor import Supervisor, record_path, stop_orphans
from millrace.run_folder.process import ProcessId

# a separate child that ignores TERM, like a stuck worker process
STUBBORN = (
    "import signal, subprocess, sys, time, pathlib\n"
    "child = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)'\n"
    "subprocess.Popen([sys.executable, '-c', child])\n"
    "pathlib.Path(sys.argv[1]).touch()\n"
    "time.sleep(3600)\n"
)


def main() -> None:
    """Supervise until stopped."""
    home = Home(Path(sys.argv[1]))
    home.ensure()
    stop_orphans(home, grace_s=0.5)
    port = any_free()
    ready = home.scratch / "ready"
    web = (sys.executable, "-m", "http.server", str(port), "--bind", HOST, "--directory", str(home.scratch))
    services = (
        Service("once", (sys.executable, "-c", f"open({str(home.scratch / 'once')!r}, 'a').write('x')")),
        Service("web", web, health=answers(f"http://{HOST}:{port}/"), after=("once",)),
        Service(
            "worker", (sys.executable, "-c", STUBBORN, str(ready)), health=lambda _: ready.exists(), after=("web",)
        ),
    )
    until = ProcessId.of(int(sys.argv[2])) if len(sys.argv) > 2 else None
    Supervisor(services, home, {"web": port}, until, back_off_s=(0.1,), grace_s=0.5, unhealthy_s=1.0).run()
    assert not record_path(home).exists()


if __name__ == "__main__":
    main()
