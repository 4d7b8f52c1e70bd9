//! Serves a page of axum behind tower_governor.
use axum::{Router, http::Request, routing::any};
use std::{env, thread, time::Duration};
use tower_governor::{
    GovernorError, GovernorLayer, governor::GovernorConfigBuilder, key_extractor::KeyExtractor,
};

#[derive(Clone)]
struct ApiKey;

impl KeyExtractor for ApiKey {
    type Key = String;

    fn extract<T>(&self, request: &Request<T>) -> Result<String, GovernorError> {
        let key = request.headers().get("x-api-key").map(|v| v.as_bytes());
        Ok(String::from_utf8_lossy(key.unwrap_or_default()).into_owned())
    }
}

#[tokio::main]
async fn main() {
    let config = GovernorConfigBuilder::default()
        .key_extractor(ApiKey)
        .per_millisecond(200)
        .burst_size(10)
        .use_headers()
        .finish()
        .unwrap();
    let limiter = config.limiter().clone();
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(2));
            limiter.retain_recent();
        }
    });
    let app = Router::new().route("/", any(|| async { "Hello.\n" })).layer(GovernorLayer::new(config));
    let address = format!("127.0.0.1:{}", env::var("PORT").unwrap());
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    axum::serve(listener, app).await.unwrap();
}
