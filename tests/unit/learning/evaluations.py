"""What the tests of concurrent evaluation share."""

from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context, state_tensors
from reaper.learning.evaluation.concurrent import ConcurrentEvaluator
from reaper.learning.evaluation.jobs import EvalJob
from reaper.tasks.sequence import find_task

SETTINGS = with_overrides(ARCADE, TINY)
CATCH, DODGE = find_task("catch"), find_task("dodge")


def new_context(concurrent=True, **parts):
    return Context(SETTINGS, 6, 0, ("short-term", "catch"), concurrent_eval=concurrent, **parts)


def new_job(agent_steps=120, tasks=("catch", "dodge"), weights=None):
    return EvalJob(agent_steps, list(tasks), weights or state_tensors(new_context().q_network()))


class FakeProcess:
    """Stands in for the process: has a reply when the test completes an evaluation."""

    def __init__(self, context, low_priority=True):
        self.context, self.low_priority, self.closed = context, low_priority, False
        self.jobs, self.replies = [], []
        self.on_wait = lambda: None
        self.concurrent_after = []  # numbers of jobs after which tasks were to run concurrently

    def run_tasks_concurrently(self):
        self.concurrent_after.append(len(self.jobs))

    def submit(self, job):
        self.jobs.append(EvalJob(job.agent_steps, list(job.tasks), job.weights))

    def complete(self, count=1):
        for _ in range(count):
            oldest = self.jobs[0]
            task = oldest.tasks.pop(0)
            self.replies.append({"task": task, "agent_steps": oldest.agent_steps, "scores": [1.0, 2.0]})
            if not oldest.tasks:
                del self.jobs[0]

    def has_reply(self, seconds=0.0):
        if seconds and not self.replies:
            self.on_wait()
        return bool(self.replies)

    def receive(self):
        return self.replies.pop(0)

    def cpu_seconds(self):
        return 0.0

    def close(self):
        self.closed = True


def new_evaluator_with_fake_process(network=None, **parts):
    context = new_context(**parts)
    return ConcurrentEvaluator(context, network or context.q_network(), new_process=FakeProcess)
