# Asks one client of Python about each vector, under a false clock, and prints an object a line.
import datetime, glob, json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import time_machine

name = sys.argv[1]


class Clock:
    """Time that passes only while a client sleeps."""

    passed = 0.0
    traveller = None

    def start(self, now):
        if self.traveller:
            self.travel.stop()
        self.passed = 0.0
        self.travel = time_machine.travel(datetime.datetime.fromisoformat(now), tick=False)
        self.traveller = self.travel.start()

    def sleep(self, seconds):
        seconds = float(seconds)
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if seconds != seconds:
            raise ValueError("Invalid value NaN (not a number)")
        if seconds > 9_223_372_036:
            raise OverflowError("timestamp too large to convert to C PyTime_t")
        self.passed += seconds
        try:
            self.traveller.shift(seconds)
        except (OverflowError, ValueError):
            pass  # after the year 9999


clock = Clock()
time.sleep = clock.sleep


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers, served, last, gap = [], 0, 0.0, None

    def answer(self):
        s = Server
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        n, s.served = s.served, s.served + 1
        if n == len(s.answers) and s.gap is None:
            s.gap = clock.passed - s.last
        if n >= len(s.answers):
            return self.send(200, ["Content-Type: application/json"], b"{}")
        s.last = clock.passed
        a = s.answers[n]
        self.send(a["status"], a["fields"], a.get("body", "").encode())

    do_GET = do_POST = answer

    def send(self, status, fields, body):
        self.send_response_only(status)
        for field in fields:
            field, value = field.split(":", 1)
            self.send_header(field, value.removeprefix(" "))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"


class Answered(Exception):
    """The client returned this status."""

    def __init__(self, status):
        self.status = status


def requests():  # urllib3's Retry, as the documents of requests mount it
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry
    s = requests.Session()
    s.mount("http://", HTTPAdapter(max_retries=Retry(
        total=3, backoff_factor=0.1, status_forcelist=[429, 503])))

    def call():
        try:
            return s.get(url + "/things").status_code
        except requests.exceptions.RetryError:
            return 429
    return call


def httpx_retries():
    import httpx
    from httpx_retries import RetryTransport
    c = httpx.Client(transport=RetryTransport(), follow_redirects=True)
    return lambda: c.get(url + "/things").status_code


def openai():
    from openai import APIStatusError, OpenAI
    c = OpenAI(api_key="x", base_url=url)

    def call():
        try:
            c.models.with_raw_response.list()
            return 200
        except APIStatusError as e:
            return e.status_code
    return call


def azure_core():
    from azure.core import PipelineClient
    from azure.core.pipeline.policies import RedirectPolicy, RetryPolicy
    from azure.core.rest import HttpRequest
    c = PipelineClient(url, policies=[RedirectPolicy(), RetryPolicy()])
    return lambda: c.send_request(HttpRequest("GET", url + "/things")).status_code


def PyGithub():
    import logging
    from github import Github, GithubException
    logging.disable(logging.CRITICAL)
    g = Github(base_url=url, seconds_between_requests=0, seconds_between_writes=0)

    def call():
        try:
            g.get_user("a")
            return 200
        except GithubException as e:
            return e.status
    return call


def stripe():
    from stripe import StripeClient, StripeError
    c = StripeClient("sk_test_1", base_addresses={"api": url}, max_network_retries=2)

    def call():
        try:
            c.v1.balance.retrieve()
            return 200
        except StripeError as e:
            if e.http_status is None:
                raise
            return e.http_status
    return call


def ask(call, vector, now):
    """Returns the wait after the last answer, whether the client repeats by itself, and an error."""
    clock.start(vector.get("now", now))
    Server.answers, Server.served, Server.last, Server.gap = vector["answers"], 0, 0.0, None
    error = ""

    def go():
        nonlocal error
        error = ""
        try:
            call()
        except Exception as e:
            error = f"{type(e).__name__}: {e}"[:120]

    for i, a in enumerate(vector["answers"]):
        if Server.served > i:
            continue
        clock.sleep(max(0, a.get("at", 0) - clock.passed))
        go()
        if error and Server.served <= i:
            return None, False, error
    repeated = Server.gap is not None
    if not repeated and vector["answers"][-1]["status"] < 300:
        go()
    return Server.gap, repeated, error


call = globals()[name.replace("-", "_")]()
for file in sorted(glob.glob(os.path.join(os.environ["VECTORS"], "*.json"))):
    with open(file) as f:
        vectors = json.load(f)
    for vector in vectors["vectors"]:
        if any("sent" in a for a in vector["answers"]):
            continue
        wait, repeated, error = ask(call, vector, vectors["now"])
        print(json.dumps({"file": os.path.basename(file)[:-5], "vector": vector["name"],
                          "wait": wait, "repeated": repeated, "error": error}), flush=True)
os._exit(0)
