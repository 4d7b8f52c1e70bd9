#!/usr/bin/env bash
# The HTTP clients of PyPI, most with the retry that they offer switched on.
source "$(dirname "$0")/lib.sh"
pins='
aiohttp 3.14.5
aiohttp-retry 2.9.1
httplib2 0.32.1
httpx 0.28.1
httpx-retries 0.6.0
niquests 3.21.2
pycurl 7.49.0
requests 2.34.2
urllib3 2.8.0
websocket-client 1.9.2
'
python_with $(awk 'NF { print $1 "==" $2 }' <<<"$pins")
cat >client.py <<'P'
import asyncio, json, os, sys

url = os.environ["URL"] + "/things"


def got(status, fields):
    return f"answer {status}, Retry-After {fields.get('retry-after')}"


def run_urllib():
    import urllib.request
    return got(200, urllib.request.urlopen(url).headers)


def run_requests():
    import requests
    r = requests.get(url)
    return got(r.status_code, r.headers)


def run_requests_retry():  # urllib3's Retry, as the documents of requests mount it
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry
    s = requests.Session()
    s.mount("http://", HTTPAdapter(max_retries=Retry(total=3, backoff_factor=0.1, status_forcelist=[429, 503])))
    return s.get(url)


def run_urllib3():
    import urllib3
    r = urllib3.PoolManager().request("GET", url)
    return got(r.status, r.headers)


def run_httpx():
    import httpx
    r = httpx.get(url)
    return got(r.status_code, r.headers)


def run_httpx_retries():
    import httpx
    from httpx_retries import RetryTransport
    with httpx.Client(transport=RetryTransport()) as c:
        r = c.get(url)
    return got(r.status_code, r.headers)


def run_aiohttp():
    async def main():
        import aiohttp
        async with aiohttp.ClientSession() as s, s.get(url) as r:
            return got(r.status, r.headers)
    return asyncio.run(main())


def run_aiohttp_retry():
    async def main():
        from aiohttp_retry import ExponentialRetry, RetryClient
        async with RetryClient(retry_options=ExponentialRetry(statuses={429, 503})) as s, s.get(url) as r:
            return got(r.status, r.headers)
    return asyncio.run(main())


def run_niquests():
    import niquests
    r = niquests.get(url, retries=3)
    return got(r.status_code, r.headers)


def run_httplib2():
    import httplib2
    r, _ = httplib2.Http().request(url)
    return got(r.status, r)


def run_websocket_client():
    import websocket
    websocket.WebSocketApp(url.replace("http", "ws", 1)).run_forever(reconnect=1)
    return "success"


def run_pycurl():
    import pycurl
    from io import BytesIO
    c, b = pycurl.Curl(), BytesIO()
    c.setopt(c.URL, url)
    c.setopt(c.WRITEDATA, b)
    c.perform()
    return f"answer {c.getinfo(c.RESPONSE_CODE)}"


try:
    said = globals()["run_" + sys.argv[1].replace("-", "_")]()
except Exception as e:
    said = f"{type(e).__name__} {getattr(e, 'code', '')} {json.dumps(str(e)[:110])}"
print("saw", said, flush=True)
os._exit(0)
P
ask_pins Python venv/bin/python client.py <<<"urllib $(venv/bin/python -c 'import platform; print(platform.python_version())')
$pins"
ask Python 'requests with urllib3 Retry' '2.34.2 and 2.8.0' venv/bin/python client.py requests-retry
