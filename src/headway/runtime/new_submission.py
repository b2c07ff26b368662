"""Submissions before they are stored: what a client sends, and how the server checks it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headway.core.model.node import Node
from headway.errors import ConfigError, Denied, UnknownName
from headway.runtime.owner import Owner
from headway.runtime.submissions import Submission
from headway.spec.arrivals import expand
from headway.spec.capacity_check import refuse_too_large
from headway.spec.catalogue import profile_of
from headway.spec.load import read_manifest
from headway.spec.platform_features import LIVE_FEATURES
from headway.spec.quotas import Quota, too_large
from headway.spec.runnable import to_jobs
from headway.spec.validation_errors import format_location
from headway.spec.workload import JobEntry, Workload, make_workload


def entries(workload: Workload, path: Path) -> list[dict[str, Any]]:
    """Return the jobs of a workload as separate submissions. `path`: file of the workload. Raise an
    error if a job cannot run.
    """
    listed = expand(workload, where=str(path))
    to_jobs(listed, path, supported=LIVE_FEATURES)  # names the file in its message
    return [_plain(job, listed) for job in listed.jobs]


def _plain(job: JobEntry, workload: Workload) -> dict[str, Any]:
    if job.model and job.profile is None:
        job = job.model_copy(update={"profile": profile_of(workload, job.model)})
    return job.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def check(
    jobs: Sequence[Mapping[str, Any]],
    directory: str,
    env: Mapping[str, str],
    nodes: Sequence[Node],
    owner: Owner | None = None,
    quota: Quota | None = None,
) -> list[Submission]:
    """Return the submissions of these jobs. Raise `ConfigError` if a job cannot run on these nodes,
    `Denied` if it can never fit into the quota. `owner`: for a server of several users.
    """
    made = []
    for number, job in enumerate(jobs):
        where = f"jobs[{number}]"
        if owner is not None:
            _refuse_for_others(job, where)
        try:
            entry, home = _read_in(job, directory)
            workload = make_workload(jobs=[entry])
            found = to_jobs(workload, Path(home, where), supported=LIVE_FEATURES)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = format_location(first["loc"][2:])
            raise ConfigError(f"{place and f'{place}: '}{first['msg']}", where=where) from None
        except UnknownName as error:  # a model
            raise ConfigError(error.message, where=where, hint=error.hint) from None
        except (OSError, ValueError) as error:  # a file that cannot be read, a name with a NUL
            raise ConfigError(f"cannot be run: {error}", where=where) from None
        if quota is not None and (why := too_large(found[0].spec, quota)):
            raise Denied(why, where=where)
        refuse_too_large({each.id: each.spec for each in found}, nodes, where)
        made.append(Submission(entry=entry, directory=home, env=dict(env), owner=owner))
    return made


def without_files(jobs: Sequence[Mapping[str, Any]], directory: str) -> list[dict[str, Any]]:
    """Return the jobs with the specs of their manifests inline, for a server that reads no files of
    its users. Relative paths in a manifest are relative to its directory.
    """
    made = []
    for job in jobs:
        entry, home = _read_in(job, directory)
        if home != directory:
            for task in entry["spec"].get("tasks", ()):
                task["workingDir"] = str(Path(home, task.get("workingDir", "")))
        made.append(entry)
    return made


def _refuse_for_others(job: Mapping[str, Any], where: str) -> None:
    """Raise an error for fields that a server of several users does not accept."""
    spec = job.get("spec")
    if job.get("manifest"):
        raise ConfigError(
            "the server of the machine reads no files: send the spec of the manifest", where=where
        )
    if isinstance(spec, Mapping) and spec.get("runAs"):
        raise ConfigError("runAs cannot be set: a job runs as its submitter", where=where)


def _read_in(job: Mapping[str, Any], directory: str) -> tuple[dict[str, Any], str]:
    """Return the job with the spec of its manifest inline, and the directory of the manifest. So
    what is stored does not depend on a file that may change.
    """
    if not job.get("manifest"):
        return dict(job), directory
    [entry] = make_workload(jobs=[job]).jobs
    path = Path(directory, entry.manifest)
    if path.exists() and not path.is_file():  # a pipe would hold the server up
        raise ConfigError("this manifest is not a regular file", where=str(path))
    spec = read_manifest(path).spec.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude_none=True
    )
    others = {name: value for name, value in job.items() if name != "manifest"}
    return {**others, "spec": spec}, str(path.parent)
