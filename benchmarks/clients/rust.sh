#!/usr/bin/env bash
# The HTTP clients and SDKs of crates, most with the retry that they offer switched on. BUILT is the
# program below if it is built already, which takes minutes.
source "$(dirname "$0")/lib.sh"
cat >Cargo.toml <<'T'
[package]
name = "client"
version = "0.1.0"
edition = "2024"

[dependencies]
async-openai = { version = "=0.43.0", features = ["chat-completion"] }
attohttpc = { version = "=0.31.0", default-features = false }
minreq = "=3.0.0"
octocrab = "=0.54.9"
reqwest = { version = "=0.13.5", default-features = false }
reqwest-middleware = "=0.5.2"
reqwest-retry = "=0.9.1"
serde_json = "1"
teloxide-core = { version = "=0.13.0", default-features = false }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
twilight-http = { version = "=0.18.0", default-features = false }
twilight-model = "=0.18.0"
ureq = { version = "=3.5.2", default-features = false }
url = "2"

[profile.dev]
debug = 0
T
mkdir src
cat >src/main.rs <<'R'
// A client as its documents create it. Its name is the argument.
use std::{env, error::Error};

type Said = Result<String, Box<dyn Error>>;

fn got(status: u16, wait: Option<&str>) -> Said {
    Ok(format!("answer {status}, Retry-After {}", wait.unwrap_or("none")))
}

async fn reqwest(url: &str) -> Said {
    let r = reqwest::get(url).await?;
    got(r.status().as_u16(), r.headers().get("retry-after").and_then(|v| v.to_str().ok()))
}

async fn reqwest_retry(url: &str) -> Said {
    use reqwest_middleware::ClientBuilder;
    use reqwest_retry::{policies::ExponentialBackoff, RetryTransientMiddleware};
    let policy = ExponentialBackoff::builder().build_with_max_retries(3);
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(RetryTransientMiddleware::new_with_policy(policy))
        .build();
    let r = client.get(url).send().await?;
    got(r.status().as_u16(), r.headers().get("retry-after").and_then(|v| v.to_str().ok()))
}

fn ureq(url: &str) -> Said {
    let r = ureq::get(url).call()?;
    got(r.status().as_u16(), None)
}

fn minreq(url: &str) -> Said {
    let r = minreq::get(url).send()?;
    got(r.status_code as u16, r.headers.iter().find(|h| h.0 == "retry-after").map(|h| h.1.as_str()))
}

fn attohttpc(url: &str) -> Said {
    let r = attohttpc::get(url).send()?;
    got(r.status().as_u16(), r.headers().get("retry-after").and_then(|v| v.to_str().ok()))
}

async fn async_openai(url: &str) -> Said {
    use async_openai::{config::OpenAIConfig, types::chat::*, Client};
    let config = OpenAIConfig::new().with_api_key("x").with_api_base(url);
    let request = CreateChatCompletionRequestArgs::default()
        .model("m")
        .messages([ChatCompletionRequestUserMessageArgs::default().content("hi").build()?.into()])
        .build()?;
    Client::with_config(config).chat().create(request).await?;
    Ok("success".into())
}

async fn octocrab(url: &str) -> Said {
    octocrab::Octocrab::builder().base_uri(url)?.build()?.repos("a", "b").get().await?;
    Ok("success".into())
}

async fn teloxide(url: &str) -> Said {
    use teloxide_core::{prelude::*, types::ChatId};
    let bot = Bot::new("1:x").set_api_url(url::Url::parse(url)?);
    bot.send_message(ChatId(1), "t").await?;
    Ok("success".into())
}

async fn twilight(url: &str) -> Said {
    let host = url.trim_start_matches("http://").to_owned();
    let client = twilight_http::Client::builder().token("x".into()).proxy(host, true).build();
    client.create_message(twilight_model::id::Id::new(1)).content("t").await?;
    Ok("success".into())
}

#[tokio::main]
async fn main() {
    let (url, name) = (env::var("URL").unwrap(), env::args().nth(1).unwrap());
    let said = match name.as_str() {
        "reqwest" => reqwest(&url).await,
        "reqwest-retry" => reqwest_retry(&url).await,
        "ureq" => ureq(&url),
        "minreq" => minreq(&url),
        "attohttpc" => attohttpc(&url),
        "async-openai" => async_openai(&url).await,
        "octocrab" => octocrab(&url).await,
        "teloxide-core" => teloxide(&url).await,
        "twilight-http" => twilight(&url).await,
        _ => Err("unknown".into()),
    };
    match said {
        Ok(s) => println!("saw {s}"),
        Err(e) => println!("saw error {:?}", e.to_string().replace(&url, "URL").chars().take(110).collect::<String>()),
    }
}
R
if [[ -n "${BUILT:-}" ]]; then
	cp "$BUILT" client
else
	CARGO_TARGET_DIR=$dir/target cargo build -q >&2
	cp target/debug/client client
fi
for name in reqwest reqwest-retry ureq minreq attohttpc async-openai octocrab teloxide-core twilight-http; do
	ask Rust "$name" "$(awk -v n="$name" '$1 == n' Cargo.toml | grep -o '[0-9][0-9.]*' | head -n 1)" ./client "$name"
done

# Answers in the forms that some of these APIs have themselves.
ANSWER=bots CASES=429 ask Rust teloxide-core 0.13.0 ./client teloxide-core
ANSWER=discord CASES=429 ask Rust twilight-http 0.18.0 ./client twilight-http
ANSWER='github bots' CASES=429 ask Rust octocrab 0.54.9 ./client octocrab
