"""The Celery application: broker, limits and the schedule of the housekeeping jobs.

Messages only wake workers, so nothing is stored and nothing is retried here. Does NOT define jobs: each app has its
own `jobs`.
"""

from celery import Celery
from django.conf import settings

HOUSEKEEPING_EVERY_S: float = settings.KBENCH_HOUSEKEEPING_S


def broker_url(redis_url: str) -> str:
    """Celery's way of writing the address of a Redis that listens on a socket."""
    return redis_url.replace("unix://", "redis+socket://", 1)


app = Celery("kbench")
app.conf.update(
    broker_url=broker_url(settings.REDIS_URL),
    broker_transport_options={
        "visibility_timeout": 7200,  # longer than the hard limit of any job
        "socket_timeout": 30,
        "socket_connect_timeout": 2,
        "max_retries": 1,  # a page that submits must not wait for a broker that is away
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
    },
    broker_connection_retry=True,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    task_serializer="json",
    accept_content=["json"],
    result_backend=None,
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=False,  # the row is the queue: a job that kills its process must not come back at once
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    task_default_queue="maint",
    timezone="UTC",
    beat_schedule={
        "reap": {"task": "benchmarks.reap", "schedule": HOUSEKEEPING_EVERY_S, "options": {"expires": 30}},
        "dispatch": {"task": "benchmarks.dispatch", "schedule": HOUSEKEEPING_EVERY_S, "options": {"expires": 30}},
        "rejudge": {"task": "benchmarks.rejudge", "schedule": HOUSEKEEPING_EVERY_S, "options": {"expires": 30}},
        "deliver": {"task": "benchmarks.deliver", "schedule": HOUSEKEEPING_EVERY_S, "options": {"expires": 30}},
        "contests": {"task": "benchmarks.contests", "schedule": HOUSEKEEPING_EVERY_S, "options": {"expires": 30}},
        "tend": {"task": "agents.tend", "schedule": HOUSEKEEPING_EVERY_S, "options": {"expires": 30}},
        "sample": {"task": "benchmarks.sample_queues", "schedule": 60.0, "options": {"expires": 30}},
        "audit": {"task": "benchmarks.audit_leaders", "schedule": 60.0, "options": {"expires": 30}},
        "export": {"task": "benchmarks.export_records", "schedule": 3600.0, "options": {"expires": 600}},
        "prune": {"task": "benchmarks.prune_events", "schedule": 3600.0, "options": {"expires": 600}},
    },
)
app.set_default()
app.autodiscover_tasks(related_name="jobs")
