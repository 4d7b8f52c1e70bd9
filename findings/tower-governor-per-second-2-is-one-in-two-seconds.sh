#!/usr/bin/env bash
# tower_governor 0.8.0 of crates (2026-11-30) behind axum 0.8.9: per_second(2), burst_size(2), use_headers().
# Guess: 2 requests a second with a burst of 2, so after 1.2 s of rest both are there again. A client that comes back
# when Retry-After tells is admitted.
# Seen: the number is seconds for a request: one comes back in two seconds. After two requests at once the third one is
# told to wait 1 second, since the wait of almost 2 is cut, and a client that obeys is denied again.
set -euo pipefail
version=0.8.0
dir=$(mktemp -d)
trap '[ -z "${pid:-}" ] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
mkdir src
cat >Cargo.toml <<T
[package]
name = "page"
version = "0.1.0"
edition = "2024"
[dependencies]
axum = { version = "=0.8.9", default-features = false, features = ["http1", "tokio"] }
tower_governor = { version = "=$version", default-features = false, features = ["axum"] }
tokio = { version = "=1.54.1", features = ["macros", "net", "rt-multi-thread"] }
T
cat >src/main.rs <<'R'
use axum::{Router, routing::get};
use std::net::SocketAddr;
use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};

#[tokio::main]
async fn main() {
    let config = GovernorConfigBuilder::default().per_second(2).burst_size(2).use_headers().finish().unwrap();
    let app = Router::new().route("/", get(|| async { "Hello.\n" })).layer(GovernorLayer::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await.unwrap();
}
R
cargo build -q --release
target/release/page >at &
pid=$!
until [ -s at ]; do sleep 0.1; done
ask() {
  curl -s -o /dev/null -D head "http://$(cat at)/"
  status=$(sed -n '1s/^[^ ]* \([0-9]*\).*/\1/p' head)
  wait=$(sed -n 's/^retry-after: \([0-9]*\).*/\1/p' head)
  echo "$1: $status, Retry-After ${wait:-none}"
}
ask first && [ "$status" = 200 ]
ask second && [ "$status" = 200 ]
ask third && [ "$status" = 429 ] && [ "$wait" = 1 ]
sleep "$wait"
ask 'as told' && [ "$status" = 429 ]
sleep 1.2
ask 'after two seconds' && [ "$status" = 200 ]
ask 'at once' && [ "$status" = 429 ]
