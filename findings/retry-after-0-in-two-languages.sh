#!/usr/bin/env bash
# koa-ratelimit 6.0.0 (Node) and tower_governor 0.8.0 (Rust, on governor 0.10.4), 2026-11-28.
# Guess: the wait is rounded up to whole seconds, so that it works.
# Seen: both round down. A client that is denied for 0.9 s more is told "Retry-After: 0", comes
# back at once, and is denied again. The text of koa-ratelimit's body says 9xx ms; that of
# tower_governor says "Wait for 0s". koa-ratelimit's X-RateLimit-Reset has decimals if the
# period is no multiple of a second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit koa@3.3.0 koa-ratelimit@6.0.0
cat >koa.mjs <<'J'
import assert from 'node:assert'
import Koa from 'koa'
import ratelimit from 'koa-ratelimit'

const app = new Koa()
app.use(ratelimit({ driver: 'memory', db: new Map(), duration: 990, max: 1, id: () => 'x' }))
app.use((c) => { c.body = 'ok' })
const server = app.listen(0, '127.0.0.1')
await new Promise((resolve) => server.on('listening', resolve))
const url = `http://127.0.0.1:${server.address().port}/`
await fetch(url)
const answer = await fetch(url)
const body = await answer.text()
console.log('koa-ratelimit', answer.status, 'Retry-After:', answer.headers.get('retry-after'),
  'X-RateLimit-Reset:', answer.headers.get('x-ratelimit-reset'), body)
assert.equal(answer.status, 429)
assert.equal(answer.headers.get('retry-after'), '0')
process.exit()
J
node koa.mjs
mkdir src
cat >Cargo.toml <<'T'
[package]
name = "finding"
version = "0.1.0"
edition = "2021"

[dependencies]
axum = "=0.8.9"
governor = "=0.10.4"
tower = { version = "0.5", features = ["util"] }
tower_governor = "=0.8.0"
tokio = { version = "1", features = ["macros", "rt"] }
T
cat >src/main.rs <<'R'
use axum::{body::Body, http::Request, routing::get, Router};
use std::sync::Arc;
use tower::ServiceExt;
use tower_governor::{
    governor::GovernorConfigBuilder, key_extractor::GlobalKeyExtractor, GovernorLayer,
};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let config = GovernorConfigBuilder::default()
        .per_millisecond(990)
        .burst_size(1)
        .key_extractor(GlobalKeyExtractor)
        .finish()
        .unwrap();
    let app = Router::new().route("/", get(|| async { "ok" })).layer(GovernorLayer::new(Arc::new(config)));
    let mut last = None;
    for _ in 0..2 {
        let request = Request::get("/").body(Body::empty()).unwrap();
        last = Some(app.clone().oneshot(request).await.unwrap());
    }
    let answer = last.unwrap();
    println!("tower_governor {} {:?}", answer.status(), answer.headers());
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "0");
}
R
cargo run -q
