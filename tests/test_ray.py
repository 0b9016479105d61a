"""The Ray engine, on a real cluster of two workers on this machine."""

from __future__ import annotations

import json
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import checkpoints
from eval_helpers import answers, small_tasks, untimed  # noqa: F401 (a fixture)
from unmask.cli import main
from unmask.cli.specs import parse_decoders
from unmask.errors import UserError
from unmask.evaluate import Settings, run
from unmask.evaluate.folder import read_samples

LIMIT = 24


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return checkpoints.write_checkpoint(tmp_path_factory.mktemp("ray") / "small", "llada", layers=2, dim=16, mlp=16)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    # Two workers of one core each, wherever this runs; the store is small because machines in CI are.
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
        object_store_memory=80 << 20,
    )  # fmt: skip
    yield ray
    ray.shutdown()


def settings(model, decoders="left-to-right,rpd", **more):
    more = {"canvas_length": 32, "device": "cpu", "batch_size": 2, "limit": LIMIT} | more
    return Settings(str(model), "wordproblems", parse_decoders(decoders), **more)


def connect(monkeypatch, ray):
    """The engine on the test's own cluster, which survives the run."""
    from unmask.evaluate import cluster

    monkeypatch.setattr(ray, "shutdown", lambda: None)
    return cluster.connect(None, workers=2)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_loses_and_repeats_nothing(small, tmp_path, ray, monkeypatch):
    from unmask.evaluate.cluster import Cluster

    expected = run(settings(small), tmp_path / "local")
    hired = []
    hire = Cluster.hire

    def remember(self):
        hired.append(hire(self))
        return hired[-1]

    monkeypatch.setattr(Cluster, "hire", remember)
    file = tmp_path / "ray" / "samples.jsonl"
    killed = threading.Event()

    def kill():
        end = time.monotonic() + 300
        while not (file.exists() and len(file.read_bytes().splitlines()) >= 5):
            if time.monotonic() > end:
                return
            time.sleep(0.005)
        ray.kill(hired[0])
        killed.set()

    thread = threading.Thread(target=kill, daemon=True)  # a run that fails must not leave it waiting
    thread.start()
    rows = run(settings(small), tmp_path / "ray", engine=connect(monkeypatch, ray))
    thread.join()
    assert killed.is_set() and len(hired) >= 3, "a new worker took the dead one's place"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 2 * LIMIT, "nothing lost, nothing twice, in the file itself"
    assert answers(lines) == answers(list(read_samples(tmp_path / "local")))
    assert untimed(rows) == untimed(expected)
    config = json.loads((tmp_path / "ray" / "config.json").read_text())
    assert config["engine"] == "ray" and config["hardware"]["workers"] == 2


def test_a_local_run_can_be_finished_on_a_cluster(small, tmp_path, ray, monkeypatch):
    expected = run(settings(small, "rpd"), tmp_path)
    file = tmp_path / "samples.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:20]))
    assert untimed(run(settings(small, "rpd"), tmp_path, engine=connect(monkeypatch, ray))) == untimed(expected)


def test_a_worker_that_cannot_work_ends_the_run_with_its_reason(small, tmp_path, ray, monkeypatch):
    engine = connect(monkeypatch, ray)

    def gone(plan):
        for path in small_copy.iterdir():
            path.unlink()
        return engine(plan)

    import shutil

    small_copy = tmp_path / "copy"
    shutil.copytree(small, small_copy)
    with pytest.raises(UserError, match="worker could not be started"):
        run(settings(small_copy, "rpd"), tmp_path / "run", engine=gone)


@pytest.mark.parametrize(
    ("asked", "said"), [({"workers": 3}, "room for 2 workers of 1 CPU, not for 3"), ({"cores": 3}, "not for one")]
)
def test_more_workers_than_the_cluster_has_room_for_are_refused(small, tmp_path, ray, asked, said):
    """Ray itself would wait for ever."""
    from unmask.evaluate.cluster import connect

    with pytest.raises(UserError, match=said):
        run(settings(small, "rpd"), tmp_path, engine=connect(None, **asked))
    assert not (tmp_path / "config.json").exists()


def test_a_worker_takes_all_it_needs_of_one_machine():
    from unmask.evaluate.cluster import room

    nodes = [{"Alive": alive, "Resources": {"CPU": 3.0, "GPU": 8.0}} for alive in (True, True, False)]
    assert room(nodes, {"CPU": 2}) == 2 and room(nodes, {"CPU": 1, "GPU": 1}) == 6
    assert room([{"Alive": True, "Resources": {"CPU": 4.0}}], {"CPU": 1, "GPU": 1}) == 0


class Machines:
    """Two machines of one core, as Ray shows them, and one worker on each. `lost` machines no longer answer; Ray
    knows of `reported` of them."""

    class exceptions:
        RayTaskError = type("RayTaskError", (Exception,), {})
        RayError = type("RayError", (Exception,), {})

    def __init__(self, lost=0):
        self.lost, self.reported, self.hired, self.killed = lost, 0, [], []

    def nodes(self):
        return [{"Alive": number >= self.reported, "Resources": {"CPU": 1.0}} for number in range(2)]

    def remote(self, station):
        return SimpleNamespace(options=lambda **needs: SimpleNamespace(remote=self.hire))

    def hire(self, *arguments):
        number = len(self.hired)

        def run(decoder, pairs):
            return Stream(number, iter([[{"index": index}] for index, _ in pairs]))

        self.hired.append(number)
        return SimpleNamespace(
            number=number,
            hardware=SimpleNamespace(remote=lambda: Stream(number, iter([]))),
            run=SimpleNamespace(options=lambda **more: SimpleNamespace(remote=run)),
        )

    def kill(self, worker):
        self.killed.append(worker.number)

    def wait(self, streams, num_returns, timeout):
        """Those hired later are never placed: the machines are full, or gone."""
        assert timeout is not None and streams
        ready = [stream for stream in streams if stream.number < 2]
        if not ready:
            self.reported = self.lost  # by now, Ray has noticed
        return ready[-1:], []

    def get(self, answer):
        if isinstance(answer, Stream):
            return {"device": "none"}
        number, samples = answer
        if number < self.lost:
            raise self.exceptions.RayError("the machine is gone")
        return samples


class Stream:
    def __init__(self, number, results):
        self.number, self.results = number, results

    def __next__(self):
        return self.number, next(self.results)


def cluster_of(machines, monkeypatch, count=6):
    from unmask.evaluate.cluster import Cluster

    monkeypatch.setitem(sys.modules, "ray", machines)
    plan = SimpleNamespace(
        checkpoint=SimpleNamespace(device="cpu", dtype="float32"), task=SimpleNamespace(),
        settings=SimpleNamespace(batch_size=1), pick=lambda indices: ((i, object()) for i in indices),
    )  # fmt: skip
    return Cluster(plan, None, 1).run(None, range(count))


def test_a_lost_machine_is_not_waited_for(monkeypatch):
    """The place of its worker is gone as well; a new one would never start. The others take over."""
    machines = Machines(lost=1)
    found = [sample["index"] for samples in cluster_of(machines, monkeypatch) for sample in samples]
    assert sorted(found) == list(range(6)), "nothing lost, nothing twice"
    assert len(machines.hired) <= 3


def test_without_any_machine_left_the_run_ends(monkeypatch):
    machines = Machines(lost=2)
    with pytest.raises(UserError, match="no room left for a worker; what is finished is on disk"):
        list(cluster_of(machines, monkeypatch))
    assert set(machines.hired[2:]) <= set(machines.killed)


@pytest.mark.parametrize("option", ["--workers", "--cores"])
def test_a_count_below_one_is_refused(tmp_path, capsys, option):
    assert main(["eval", "--engine", "ray", option, "0", "--out", str(tmp_path / "run")]) == 2
    assert f"{option} must be at least 1" in capsys.readouterr().err and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
        ("ray://127.0.0.1:1", "is for Ray Client, which cannot stream results: run on the cluster's head with"),
        ("nonsense", "is not HOST:PORT"),
    ],
)
def test_an_unreachable_address_is_one_sentence(tmp_path, capsys, address, said):
    pytest.importorskip("ray")
    start = time.monotonic()
    assert main(["eval", "--engine", "ray", "--address", address, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1
    assert time.monotonic() - start < 20 and not (tmp_path / "run").exists()


def test_without_ray_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["eval", "--engine", "ray", "--out", str(tmp_path / "run")]) == 2
    assert "pip install 'unmask[ray]'" in capsys.readouterr().err
