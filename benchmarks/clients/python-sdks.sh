#!/usr/bin/env bash
# The SDKs of APIs that PyPI has, as their documents create them.
source "$(dirname "$0")/lib.sh"
pins='
slack_sdk 3.48.0
stripe 16.1.0
twilio 9.13.0
tweepy 4.17.0
PyGithub 2.10.0
python-gitlab 8.6.0
notion-client 3.1.0
openai 3.57.0
anthropic 2.14.0
boto3 1.44.8
huggingface_hub 2.4.0
elasticsearch 9.5.1
discord.py 2.7.1
python-telegram-bot 22.8
aiogram 3.31.0
pyTelegramBotAPI 4.37.1
jira 3.10.5
spotipy 2.26.0
praw 8.0.3
pyairtable 3.5.1
hcloud 2.27.0
hubspot-api-client 12.0.0
ShopifyAPI 12.7.0
github3.py 4.0.1
azure-core 1.41.0
sendgrid 6.12.5
linode_api4 5.48.0
influxdb-client 1.50.0
atlassian-python-api 5.0.5
groq 1.7.0
cloudflare 5.9.0
cohere 7.3.1
google-cloud-storage 3.17.1
google-genai 3.6.1
kubernetes 37.0.1
langchain-openai 1.7.4
litellm 1.110.2
mistralai 3.7.0
'
python_with $(awk 'NF { print $1 "==" $2 }' <<<"$pins")
cat >client.py <<'P'
import asyncio, json, os, sys

url, port = os.environ["URL"], os.environ["PORT"]
messages = [{"role": "user", "content": "hi"}]


def anthropic():
    from anthropic import Anthropic
    return Anthropic(api_key="x", base_url=url).messages.create(model="m", max_tokens=9, messages=messages)


def atlassian_python_api():
    from atlassian import Jira
    return Jira(url=url, username="a", password="b", backoff_and_retry=True).issue("A-1")


def azure_core():
    from azure.core import PipelineClient
    from azure.core.rest import HttpRequest
    from azure.core.pipeline.policies import RetryPolicy
    r = PipelineClient(url, policies=[RetryPolicy()]).send_request(HttpRequest("GET", url))
    return f"answer {r.status_code}, Retry-After {r.headers.get('retry-after')}"


def boto3():
    import boto3
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="x",
                        aws_secret_access_key="x").list_buckets()


def cloudflare():
    from cloudflare import Cloudflare
    return Cloudflare(api_token="x", base_url=url).zones.get(zone_id="z")


def cohere():
    import cohere
    return cohere.Client(api_key="x", base_url=url).chat(message="hi")


def discord_py():
    import discord
    from discord.http import HTTPClient, Route
    Route.BASE = url

    async def main():
        http = HTTPClient(asyncio.get_running_loop())
        await http.static_login("x")
    return asyncio.run(main())


def elasticsearch():
    from elasticsearch import Elasticsearch
    return Elasticsearch(url).search(index="i")


def github3_py():
    import github3
    session = github3.session.GitHubSession()
    session.base_url = url
    return github3.GitHub(session=session).user("u")


def google_cloud_storage():
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage
    c = storage.Client(project="p", credentials=AnonymousCredentials(), client_options={"api_endpoint": url})
    return c.get_bucket("b")


def google_genai():
    from google import genai
    c = genai.Client(api_key="x", http_options={"base_url": url})
    return c.models.generate_content(model="m", contents="hi")


def groq():
    from groq import Groq
    return Groq(api_key="x", base_url=url).chat.completions.create(model="m", messages=messages)


def hcloud():
    from hcloud import Client
    return Client(token="x", api_endpoint=url).servers.get_all()


def hubspot_api_client():
    from hubspot import HubSpot
    c = HubSpot(access_token="x")
    api = c.crm.contacts.basic_api
    api.api_client.configuration.host = url
    return api.get_page()


def huggingface_hub():
    from huggingface_hub import HfApi
    return HfApi(endpoint=url, token="x").model_info("a/b")


def huggingface_hub_upload():
    from huggingface_hub.utils import http_backoff
    r = http_backoff("GET", url + "/x")
    return f"answer {r.status_code}, Retry-After {r.headers.get('retry-after')}"


def influxdb_client():
    from influxdb_client import InfluxDBClient
    return InfluxDBClient(url=url, token="x", org="o").query_api().query("x")


def jira():
    from jira import JIRA
    return JIRA(url, basic_auth=("a", "b"))


def kubernetes():
    from kubernetes import client
    configuration = client.Configuration()
    configuration.host = url
    return client.CoreV1Api(client.ApiClient(configuration)).list_namespaced_pod("d")


def langchain_openai():
    from langchain_openai import ChatOpenAI
    return ChatOpenAI(model="m", api_key="x", base_url=url).invoke("hi")


def linode_api4():
    from linode_api4 import LinodeClient
    return LinodeClient("x", base_url=url).profile()


def litellm():
    import litellm
    return litellm.completion(model="openai/m", api_key="x", base_url=url, messages=messages)


def mistralai():
    from mistralai.client import Mistral
    return Mistral(api_key="x", server_url=url).chat.complete(model="m", messages=messages)


def notion_client():
    from notion_client import Client
    return Client(auth="x", base_url=url).users.me()


def openai():
    from openai import OpenAI
    return OpenAI(api_key="x", base_url=url).chat.completions.create(model="m", messages=messages)


def praw():
    import prawcore
    requestor = prawcore.Requestor(user_agent="weir:x:1", oauth_url=url, reddit_url=url)
    auth = prawcore.ImplicitAuthorizer(
        access_token="x", expires_in=3600, scope="read",
        authenticator=prawcore.UntrustedAuthenticator(client_id="i", requestor=requestor))
    return prawcore.Session(authorizer=auth).request(method="GET", path="/api/v1/me")


def pyairtable():
    from pyairtable import Api
    return Api("x", endpoint_url=url).table("app", "t").get("rec")


def PyGithub():
    import github
    return github.Github(base_url=url).get_user("u")


def pyTelegramBotAPI():
    from telebot import TeleBot, apihelper
    apihelper.API_URL = url + "/bot{0}/{1}"
    return TeleBot("1:x").send_message(1, "t")


def python_gitlab():
    import gitlab
    return gitlab.Gitlab(url, private_token="x").projects.get(1)


def python_telegram_bot():
    from telegram import Bot

    async def main():
        async with Bot("1:x", base_url=url + "/bot") as bot:
            await bot.send_message(1, "t")
    return asyncio.run(main())


def aiogram():
    from aiogram import Bot
    from aiogram.client.session.aiohttp import AiohttpSession
    from aiogram.client.telegram import TelegramAPIServer

    async def main():
        session = AiohttpSession(api=TelegramAPIServer.from_base(url))
        try:
            await Bot("1:x", session=session).send_message(1, "t")
        finally:
            await session.close()
    return asyncio.run(main())


def sendgrid():
    import sendgrid
    return sendgrid.SendGridAPIClient("SG.x", host=url).client.mail.send.post(request_body={})


def ShopifyAPI():
    import shopify
    shopify.ShopifyResource.set_site(url + "/admin")
    return shopify.Shop.current()


def slack_sdk():
    from slack_sdk import WebClient
    from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
    c = WebClient(token="x", base_url=url + "/")
    c.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=2))
    return c.chat_postMessage(channel="c", text="t")


def spotipy():
    import spotipy
    c = spotipy.Spotify(auth="x")
    c.prefix = url + "/"
    return c.artist("0OdUWJ0sBjDrqHygGUXeCF")


def stripe():
    import stripe
    stripe.api_base, stripe.api_key = url, "sk_test_1"
    return stripe.Charge.create(amount=1, currency="eur", source="tok_visa")


def tweepy():
    import tweepy
    c = tweepy.Client("x", wait_on_rate_limit=True)
    through = c.session.request
    c.session.request = lambda method, u, **k: through(method, u.replace("https://api.twitter.com", url), **k)
    return c.get_user(username="u")


def twilio():
    from twilio.http.http_client import TwilioHttpClient
    from twilio.rest import Client

    class Http(TwilioHttpClient):
        def request(self, method, u, **k):
            return super().request(method, url + u.split(".com", 1)[1], **k)
    return Client("ACx", "x", http_client=Http()).messages.create(to="+1", from_="+2", body="t")


try:
    r = globals()[sys.argv[1].replace("-", "_").replace(".", "_")]()
    said = r if isinstance(r, str) and r.startswith("answer") else f"success: {r}"
except BaseException as e:
    code = getattr(e, "status_code", None) or getattr(e, "status", None) or getattr(e, "http_status", None) \
        or getattr(e, "code", None) or ""
    code = code if isinstance(code, (int, str)) else ""
    said = f"{type(e).__name__} {code} {json.dumps(str(e)[:110], ensure_ascii=False)}"
print("saw", said.replace("\n", " "), flush=True)
os._exit(0)
P
ask_pins Python venv/bin/python client.py <<<"$pins"
ask Python 'huggingface_hub http_backoff' 2.4.0 venv/bin/python client.py huggingface_hub_upload

# Answers in the forms that some of these APIs have themselves.
api() {
	local cases=429,bare
	if [ "$1" = discord ]; then cases=429; fi # New refuses MaxRetryAfter beside Discord
	ANSWER=$1 CASES=$cases ask Python "$2" "$(awk -v n="$2" '$1 == n { print $2 }' <<<"$pins")" venv/bin/python client.py "$2"
}
api bots notion-client
api bots python-telegram-bot
api bots aiogram
api bots pyTelegramBotAPI
api discord discord.py
api bots hcloud
api github PyGithub
api gitlab python-gitlab
api 'stripe retry' stripe
api openai openai
api anthropic anthropic
