"""Two users of one server: neither reads, stops, imitates nor harms the jobs of the other."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from local import job, note, workload
from machine_users import ANN, BEN, SCHEDULER, SOURCE
from patience import PATIENCE, wait_for

from headway.backend import procfs
from headway.client import Client

SHOW = """
id -u; id -g; id -G; pwd
echo "secret ${SECRET_OF_ROOT-none} mine ${MINE-none} other ${OTHER-none} home $HOME"
grep -E 'NoNewPrivs|CapEff' /proc/self/status
echo "step 1 loss: 0.5"
"""
WAITS = "while [ ! -e go ]; do sleep 0.1; done"


@pytest.fixture
def started(machine):
    return machine.start()


def test_a_job_runs_as_its_submitter_with_its_environment_and_nothing_of_the_server(started):
    started.submit(ANN, "show", SHOW, "--env", "MINE", MINE="m", OTHER="o")
    assert started.wait("show") == ["succeeded"]
    said = started.headway(ANN, "logs", "show").stdout
    home = started.home[ANN]
    assert said.startswith(f"{ANN}\n{ANN}\n{ANN}\n{home}\n"), said
    assert f"secret none mine m other none home {home}\n" in said
    assert "NoNewPrivs:\t1\n" in said
    assert "CapEff:\t0000000000000000\n" in said
    folder = started.replica("show")
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (ANN, 0o2770)
    assert (folder / "out.log").stat().st_uid == ANN
    assert stat.S_IMODE((folder / "out.log").stat().st_mode) == 0o660
    [first] = [j for line in started.journal() for j in line["seen"].get("jobs", ())][:1]
    assert first["spec"]["owner"] == f"{ANN}:"


def test_a_scheduler_that_cannot_read_the_files_of_python_says_so(machine):
    private = machine.folder / "private"
    private.mkdir(mode=0o700)
    (private / "headway").symlink_to(SOURCE / "headway")
    machine.env["PYTHONPATH"] = machine.env["PYTHONPATH"].replace(str(SOURCE), str(private))
    machine.begin()
    assert machine.process.wait(PATIENCE) == 2
    told = (machine.folder / "serve.log").read_text()
    assert f"user {SCHEDULER} cannot read the files of Python" in told
    assert "Traceback" not in told
    machine.env["PYTHONPATH"] = machine.env["PYTHONPATH"].replace(str(private), str(SOURCE))
    refused = machine.headway(ANN, "ps", check=False)
    assert (refused.returncode, "sudo headway serve --system" in refused.stderr) == (4, True)


def test_only_the_launcher_is_root_and_nothing_of_a_user_reaches_it(started):
    started.submit(ANN, "long", WAITS, "--env", "LD_PRELOAD", LD_PRELOAD="/tmp/no-such-library.so")
    shell = started.claim("long")
    assert Path(f"/proc/{started.process.pid}").stat().st_uid == 0
    assert Path(f"/proc/{started.scheduler}").stat().st_uid == SCHEDULER
    assert Path(f"/proc/{shell}").stat().st_uid == 0
    assert b"LD_PRELOAD" not in Path(f"/proc/{shell}/environ").read_bytes()
    started.wait_for("long", "running")
    (started.home[ANN] / "go").touch()
    assert started.wait("long") == ["succeeded"]
    assert "LD_PRELOAD" in started.headway(ANN, "logs", "long").stdout  # in the job itself


def test_neither_reads_nor_stops_the_jobs_of_the_other(started):
    started.submit(ANN, "hers", f"echo secret; {WAITS}")
    started.wait_for("hers", "running")
    for words in (["logs", "hers"], ["explain", "hers"], ["cancel", "hers"], ["pause", "hers"]):
        done = started.headway(BEN, *words, check=False)
        assert (done.returncode, done.stdout) == (3, ""), done
        assert f"permission denied: job hers belongs to {ANN}, and you are {BEN}" in done.stderr
    [line] = [x for x in started.headway(BEN, "ps").stdout.splitlines() if x.startswith("hers")]
    assert line.split() == ["hers", str(ANN), "running", "100%"]
    shell = started.claim("hers")
    attacks = [
        f"kill -9 {shell}", f"kill -9 {started.scheduler}", f"kill -9 {started.process.pid}",
        f"cat {started.replica('hers')}/out.log", f"ls {started.replica('hers')}",
        f"cat {started.run}/jobs.db", f"cat {started.run}/journal.jsonl",
        f"ls {started.data}/launcher/",
        f"cat /proc/{shell}/environ", f"rm {started.socket}",
        f"curl -s --unix-socket {started.run}/api.sock http://x/api/v1/jobs || exit 1",
    ]  # fmt: skip
    for attack in attacks:
        done = started.run_as(BEN, "sh", "-c", attack)
        assert (done.returncode != 0, done.stdout) == (True, ""), (attack, done)
    (started.home[ANN] / "go").touch()
    assert started.wait("hers") == ["succeeded"]


FORGE = """
records=$(dirname $(dirname $(dirname $HEADWAY_DIR)))/records/$HEADWAY_JOB/$HEADWAY_REPLICA
echo '0 .' > $records/exit.1; rm -f $records/exit.1
for path in {run}/jobs.db {run}/journal.jsonl {run}/status.json {run}/jobs/forge/state.json; do
  echo forged >> $path && echo written $path
done
echo '{{"step": 9, "loss": 0}}' >> {other}/reports.jsonl && echo written {other}
echo 'loss: 0 step 9' >> {other}/out.log && echo written {other}
touch {run}/requests/1.json && echo written requests
kill -9 $PPID && echo killed
exit 7
"""


def test_a_job_forges_neither_its_exit_nor_a_file_of_headway_nor_a_report_of_another(started):
    started.submit(ANN, "hers", WAITS)
    started.wait_for("hers", "running")
    other = started.replica("hers")
    started.submit(BEN, "forge", FORGE.format(run=started.run, other=other))
    assert started.wait("forge") == ["failed"]
    assert "7" in started.jobs()["forge"].reason
    said = started.headway(BEN, "logs", "forge").stdout
    assert "written" not in said
    assert "killed" not in said
    assert not (other / "reports.jsonl").exists()
    assert (other / "out.log").read_text() == ""
    (started.home[ANN] / "go").touch()
    assert started.wait("hers") == ["succeeded"]


LINKS = """
cd $HEADWAY_DIR; rm -rf {name}; {make}
[ $HEADWAY_ATTEMPT = 2 ] || exit 1
"""


@pytest.mark.parametrize("name", ["out.log", "attempt", "checkpoint", "reports.jsonl", "ask"])
@pytest.mark.parametrize("make", ["ln -s {canary} {name}", "mkfifo {name}"])
def test_links_and_pipes_in_the_folder_of_a_job_lead_nowhere(started, name, make):
    canary = started.folder / "canary"
    canary.mkdir()
    file = canary / "file"
    file.write_text("as it was")
    file.chmod(0o600)
    target = canary if name == "checkpoint" else file
    script = LINKS.format(name=name, make=make.format(canary=target, name=name))
    started.submit(BEN, "links", script, "--retries", "1")
    started.wait("links")
    started.submit(ANN, "next", "true")
    assert started.wait("next") == ["succeeded"]  # the server is not held up
    for path in (canary, file):
        assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("as it was", 0o600)
    assert sorted(canary.iterdir()) == [file]


RACE = """
import os, sys, time
folder, canary = sys.argv[1:]
while True:
    for name in ("checkpoint", "out.log"):
        path = f"{folder}/{name}"
        for step in (
            lambda: os.rename(path, path + ".old"),
            lambda: os.symlink(canary if name == "checkpoint" else f"{canary}/file", path),
            lambda: os.unlink(path),
            lambda: os.rename(path + ".old", path),
        ):
            try:
                step()
            except OSError:
                pass
"""


def test_a_race_for_the_folder_of_a_job_gives_nothing_away(started):
    canary = started.folder / "canary"
    canary.mkdir(mode=0o700)
    (canary / "file").write_text("as it was")
    started.submit(BEN, "race", "exit 1", "--retries", "3")
    wait_for(started.replica("race").exists)
    words = [started.program, "-c", RACE, started.replica("race"), canary]
    race = subprocess.Popen(words, user=BEN, group=BEN, extra_groups=[], env=started.env)
    try:
        started.wait("race")
        assert race.poll() is None
    finally:
        race.kill()
        race.wait()
    assert (canary.stat().st_uid, stat.S_IMODE(canary.stat().st_mode)) == (0, 0o700)
    assert (canary / "file").read_text() == "as it was"
    assert (canary / "file").stat().st_uid == 0
    started.submit(ANN, "next", "true")
    assert started.wait("next") == ["succeeded"]


@pytest.mark.parametrize("who", ["launcher", "scheduler"])
def test_jobs_outlive_both_processes_and_are_found_again(started, who):
    started.submit(ANN, "long", f"echo began >> ledger; {WAITS}; echo ended >> ledger; exit 3")
    started.wait_for("long", "running")
    shell, scheduler = started.claim("long"), started.scheduler
    os.kill(started.process.pid if who == "launcher" else scheduler, signal.SIGKILL)
    started.process.wait()
    wait_for(lambda: not Path(f"/proc/{scheduler}").exists())  # it does not go on alone
    assert Path(f"/proc/{shell}").exists()
    started.start()
    started.wait_for("long", "running")
    (started.home[ANN] / "go").touch()
    assert started.wait("long") == ["failed"]
    assert "3" in started.jobs()["long"].reason
    assert (started.home[ANN] / "ledger").read_text() == "began\nended\n"
    assert started.jobs()["long"].uid == ANN


def test_a_running_job_is_cancelled_with_all_that_it_started(started):
    started.submit(ANN, "tree", "setsid sleep 600 & sleep 601 & wait")
    started.wait_for("tree", "running")

    def left():
        return started.run_as(ANN, "pgrep", "-u", str(ANN), "-xf", "sleep 60[01]").stdout.split()

    wait_for(lambda: len(left()) == 2)
    started.headway(ANN, "cancel", "tree")
    assert started.wait("tree") == ["cancelled"]
    wait_for(lambda: not left())


def test_root_and_system_users_cannot_submit_jobs_that_run(started):
    spec = {"tasks": [{"command": ["id"]}], "backoffLimit": 0}
    with Client(started.socket) as root:
        [name] = root.submit([{"name": "of-root", "spec": spec}], directory="/")
    assert started.wait(name) == ["failed"]
    assert "no job runs as root" in started.jobs()[name].reason


SPEAKS = "for i in 1 2 3 4 5; do echo line $i loss: 0.$i; sleep 0.3; done"


def test_the_commands_of_a_user_work_through_the_server(started):
    started.submit(BEN, "other", WAITS)
    started.submit(ANN, "speaks", SPEAKS)
    followed = started.headway(ANN, "logs", "speaks", "--follow").stdout.splitlines()
    assert followed == [f"line {i} loss: 0.{i}" for i in range(1, 6)]
    last = started.headway(ANN, "logs", "speaks", "--lines", "2").stdout.splitlines()
    assert last == followed[3:]
    assert "succeeded" in started.headway(ANN, "wait", "speaks").stdout
    assert started.headway(ANN, "wait").stdout == "nothing runs\n"  # of this user
    assert "succeeded" in started.headway(ANN, "history", "--jobs").stdout
    assert "speaks" in started.headway(ANN, "explain", "speaks").stdout
    assert json.loads(started.headway(ANN, "ps", "--all", "--json").stdout)[1]["job"] == "speaks"
    manifest = started.home[ANN] / "sub" / "job.yaml"
    manifest.parent.mkdir(mode=0o700)
    manifest.write_text(
        "apiVersion: headway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
        "spec: {tasks: [{command: [pwd]}]}\n"
    )
    for path in (manifest, manifest.parent):
        os.chown(path, ANN, ANN)
    path = workload(started.home[ANN], {"name": "read", "manifest": "sub/job.yaml"})
    path.chmod(0o644)
    started.headway(ANN, "submit", path)
    assert started.wait("read") == ["succeeded"]
    assert started.headway(ANN, "logs", "read").stdout == f"{manifest.parent}\n"
    (started.home[BEN] / "go").touch()
    assert started.wait("other") == ["succeeded"]


def test_a_quota_holds_jobs_of_its_user_also_after_a_restart(machine):
    quotas = machine.folder / "quotas.yaml"
    quotas.write_text(f"users: {{'{ANN}': {{runningJobs: 1}}}}")
    machine.start("--quotas", quotas)
    for name in ("first", "second", "third"):
        machine.submit(ANN, name, WAITS)
    machine.wait_for("first", "running")
    machine.submit(BEN, "other", "true")
    assert machine.wait("other") == ["succeeded"]
    said = machine.headway(ANN, "ps").stdout
    assert said.count("quota: 1 jobs") == 2
    assert machine.stop() == 0
    machine.start("--quotas", quotas)
    wait_for(lambda: "quota" in machine.jobs()["second"].reason)
    machine.headway(ANN, "cancel", "second")
    assert machine.wait("second") == ["cancelled"]
    assert machine.jobs()["first"].phase == "running"
    (machine.home[ANN] / "go").touch()
    assert machine.wait("first", "third") == ["succeeded", "succeeded"]
    lines = (machine.data / "scheduler" / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["jobs"] for line in lines] == [
        ["first"], ["second"], ["third"], ["other"], ["second"],
    ]  # fmt: skip


BUSY = "while :; do :; done"


@pytest.mark.alone
@pytest.mark.parametrize("policy", ["headway", "fair"])
def test_ten_small_jobs_of_one_user_do_not_outweigh_one_large_job_of_another(machine, policy):
    machine.start("--policy", policy)
    jobs = [job(f"small-{i}", ["sh", "-c", BUSY]) for i in range(10)]
    path = workload(machine.home[ANN], *jobs)
    path.chmod(0o644)
    machine.headway(ANN, "submit", path)
    machine.submit(BEN, "large", f"{BUSY} & {BUSY}")
    wait_for(lambda: {each.phase for each in machine.jobs().values()} == {"running"}, every=0.2)
    wait_for(lambda: 0.4 < (machine.jobs()["large"].share or 0.0) < 0.6, every=0.2)
    before = _used(machine)
    wait_for(lambda: sum(_used(machine).values()) > sum(before.values()) + 10.0, every=0.2)
    after = _used(machine)
    used = {name: after[name] - before[name] for name in after}
    part = used["large"] / sum(used.values())
    note(f"share of one large job against ten small ones of another user, {policy}", part)
    assert 0.3 < part < 0.7  # weights alone would give a job of eleven 0.09


def _used(machine):
    """Core-seconds of each job, by the kernel."""
    found = {}
    for name in machine.jobs():
        pids = procfs.marked(HEADWAY_DIR=str(machine.replica(name)))
        found[name] = sum(procfs.cpu(pid) for pid in pids)
    return found
