//! Serves a page of axum behind throttlecrab. The fields are its result, in whole seconds, rounded up.
use axum::{Router, http::HeaderMap, http::StatusCode, routing::any};
use std::{env, sync::Arc, sync::Mutex, time::Duration, time::SystemTime};
use throttlecrab::{AdaptiveStore, RateLimiter};

fn seconds(d: Duration) -> String {
    d.as_secs_f64().ceil().to_string()
}

#[tokio::main]
async fn main() {
    let limiter = Arc::new(Mutex::new(RateLimiter::new(AdaptiveStore::new())));
    let page = move |headers: HeaderMap| async move {
        let key = headers.get("x-api-key").map(|v| v.as_bytes()).unwrap_or_default();
        let key = String::from_utf8_lossy(key);
        let (allowed, result) =
            limiter.lock().unwrap().rate_limit(&key, 10, 10, 2, 1, SystemTime::now()).unwrap();
        let mut fields = vec![
            ("x-ratelimit-limit", result.limit.to_string()),
            ("x-ratelimit-remaining", result.remaining.to_string()),
            ("x-ratelimit-reset", seconds(result.reset_after)),
        ];
        if allowed {
            return (StatusCode::OK, axum::response::AppendHeaders(fields), "Hello.\n");
        }
        fields.push(("retry-after", seconds(result.retry_after)));
        (StatusCode::TOO_MANY_REQUESTS, axum::response::AppendHeaders(fields), "Too many requests.\n")
    };
    let app = Router::new().route("/", any(page));
    let address = format!("127.0.0.1:{}", env::var("PORT").unwrap());
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    axum::serve(listener, app).await.unwrap();
}
