"""GET /metrics: counters and queue lengths in Prometheus' text format."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from txexport.server.served import Served

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """The counters of one server."""

    def __init__(self, served: Mapping[str, Served]):
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "txexport_requests", "Requests answered.", ["endpoint", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "txexport_request_seconds",
            "Duration of requests.",
            ["endpoint"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.tokens = Counter(
            "txexport_tokens", "Prompt tokens read, and tokens generated.", ["kind"], registry=self.registry
        )
        self.registry.register(_Queues(served))

    def count(self, endpoint: str, status: int, seconds: float, usage: Mapping[str, int]) -> None:
        """Count a finished request."""
        self.requests.labels(endpoint, str(status)).inc()
        self.seconds.labels(endpoint).observe(seconds)
        for name, kind in (("prompt_tokens", "prompt"), ("completion_tokens", "completion")):
            if name in usage:
                self.tokens.labels(kind).inc(usage[name])


class _Queues(Collector):
    """Gauges of running texts and waiting requests, read when they are collected."""

    def __init__(self, served: Mapping[str, Served]):
        self.served = served

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges."""
        running = GaugeMetricFamily(
            "txexport_running_texts", "Texts that are being generated.", labels=["model"]
        )
        waiting = GaugeMetricFamily("txexport_waiting", "Waiting requests.", labels=["model"])
        for name, one in self.served.items():
            calls = one.calls.waiting
            if one.generation is not None:
                running.add_metric([name], one.generation.running)
                calls += one.generation.waiting
            waiting.add_metric([name], calls)
        yield running
        yield waiting


async def metrics(request: Request) -> Response:
    """Answer a request."""
    text = generate_latest(request.app.state.metrics.registry)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
