"""The operations about jobs: what they have reported."""

from typing import Final

from mainstem import errors, limits
from mainstem.server.descriptions import bodies
from mainstem.server.descriptions.model import JSON, Access, Body, Operation, Path, Reply
from mainstem.server.endpoints.jobs import JobReport

JOBS: Final = Path(
    "/v1/jobs",
    {
        "get": Operation(
            "listJobs",
            "Jobs",
            "List the last round of every job",
            f"The server remembers up to {limits.JOBS_MAX} jobs, each for {limits.JOB_KEPT_S // 86_400} days after its"
            " last report.",
            (),
            None,
            (Reply(200, "The last rounds.", (), {JSON: bodies.JobList}),),
            (),
            access=Access.ADMIN,
        ),
        "post": Operation(
            "reportRound",
            "Jobs",
            "Report a round of a job",
            "The server also appends the round to the stream `_mainstem/jobs`, unless the round has read nothing but"
            " reports of other rounds.",
            (),
            Body(f"The round, up to {limits.JOB_REPORT_BYTES_MAX // limits.KIB} KiB.", {JSON: JobReport}),
            (Reply(204, "The report is durable."),),
            (
                errors.RepeatedHeader,
                errors.BadRequest,
                errors.BadJson,
                errors.JobsStreamUnusable,
                errors.BodyTooLarge,
            ),
            access=Access.ADMIN,
            writes=True,
        ),
    },
)
