#!/usr/bin/env bash
# discord.py 2.7.1 (2026-11-28) after a 429 that says how long to wait: Retry-After, the fields of
# Discord, and retry_after in the body.
# Guess: it waits for retry_after and asks again.
# Seen: without the field Via it raises HTTPException at once, and the program's message is lost.
# It takes such an answer for a ban of its address by the proxy in front of Discord. With any Via
# the same answer is waited for, if Content-Type is application/json to the letter: with a charset,
# or as application/problem+json, it raises as well. Who answers in Discord's place needs both.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet discord.py==2.7.1
cat >"$dir/denied.py" <<'P'
import asyncio, json, logging
from aiohttp import web
import discord
from discord.http import HTTPClient, Route

logging.disable(logging.CRITICAL)

async def posts(media_type, fields):
    requests = 0

    async def answer(request):
        nonlocal requests
        if not request.path.endswith('/messages'):
            return web.json_response({'id': '1', 'username': 'bot', 'discriminator': '0', 'avatar': None})
        requests += 1
        if requests > 1:
            return web.json_response({'id': '1'})
        body = {'message': 'You are being rate limited.', 'retry_after': 1.0, 'global': False}
        return web.Response(body=json.dumps(body).encode(), status=429, headers={
            'Content-Type': media_type,
            'Retry-After': '1', 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset-After': '1.0',
            'X-RateLimit-Limit': '1', 'X-RateLimit-Bucket': 'b', 'X-RateLimit-Scope': 'user', **fields})

    app = web.Application()
    app.router.add_route('*', '/{path:.*}', answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, '127.0.0.1', 0)
    await site.start()
    Route.BASE = 'http://127.0.0.1:%d' % site._server.sockets[0].getsockname()[1]
    client = HTTPClient(asyncio.get_running_loop())
    await client.static_login('token')
    begun = asyncio.get_running_loop().time()
    try:
        await client.request(Route('POST', '/channels/{channel_id}/messages', channel_id=1), json={})
        said = 'sent'
    except discord.HTTPException as e:
        said = f'{type(e).__name__} {e.status}'
    waited = asyncio.get_running_loop().time() - begun
    await client.close()
    await runner.cleanup()
    print(media_type, fields, '->', said, requests, 'request(s),', 'waited' if waited > 0.9 else 'at once')
    return said, requests, waited > 0.9

async def main():
    print('discord.py', discord.__version__)
    denied = ('HTTPException 429', 1, False)
    assert await posts('application/json', {}) == denied
    assert await posts('application/json', {'Via': '1.1 any'}) == ('sent', 2, True)
    assert await posts('application/json; charset=utf-8', {'Via': '1.1 any'}) == denied
    assert await posts('application/problem+json', {'Via': '1.1 any'}) == denied

asyncio.run(main())
P
"$dir/venv/bin/python" "$dir/denied.py"
