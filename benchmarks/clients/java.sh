#!/usr/bin/env bash
# The HTTP clients and SDKs of Maven's registry, and those of Java itself.
source "$(dirname "$0")/lib.sh"
pins='
com.anthropic:anthropic-java 3.14.0
com.google.http-client:google-http-client 2.2.0
com.konghq:unirest-java-core 4.10.1
com.openai:openai-java 4.101.0
com.slack.api:slack-api-client 1.51.0
com.squareup.okhttp3:okhttp-jvm 5.5.1
com.squareup.retrofit2:retrofit 3.0.0
com.stripe:stripe-java 33.3.0
io.github.openfeign:feign-core 13.13
org.apache.httpcomponents.client5:httpclient5 5.6.5
org.eclipse.jetty:jetty-client 12.1.14
org.gitlab4j:gitlab4j-api 6.2.0
org.springframework:spring-web 7.0.10
'
cat >Client.java <<'J'
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.concurrent.Callable;
import java.util.Map;
import java.util.TreeMap;

/** A client as its documents create it. Its name is the argument. */
public class Client {
    static final String URL = System.getenv("URL");

    static String got(int status, Object wait) { return "answer " + status + ", Retry-After " + wait; }

    interface Api { @feign.RequestLine("GET /things") String things(); }

    interface Things { @retrofit2.http.GET("things") retrofit2.Call<okhttp3.ResponseBody> things(); }

    static final Map<String, Callable<Object>> clients = new TreeMap<>(Map.of(
        "java.net.http", () -> {
            var r = java.net.http.HttpClient.newHttpClient().send(
                java.net.http.HttpRequest.newBuilder(URI.create(URL)).build(),
                java.net.http.HttpResponse.BodyHandlers.ofString());
            return got(r.statusCode(), r.headers().firstValue("Retry-After").orElse(null));
        },
        "HttpURLConnection", () -> {
            var c = (HttpURLConnection) URI.create(URL).toURL().openConnection();
            return new String(c.getInputStream().readAllBytes());
        },
        "org.apache.httpcomponents.client5:httpclient5", () -> {
            try (var c = org.apache.hc.client5.http.impl.classic.HttpClients.createDefault()) {
                return c.execute(new org.apache.hc.client5.http.classic.methods.HttpGet(URL),
                    r -> got(r.getCode(), r.getFirstHeader("Retry-After")).replace("Retry-After Retry-After:", "Retry-After"));
            }
        },
        "com.squareup.okhttp3:okhttp-jvm", () -> {
            var r = new okhttp3.OkHttpClient().newCall(new okhttp3.Request.Builder().url(URL).build()).execute();
            return got(r.code(), r.header("Retry-After"));
        },
        "com.squareup.retrofit2:retrofit", () -> {
            var r = new retrofit2.Retrofit.Builder().baseUrl(URL).build().create(Things.class).things().execute();
            return got(r.code(), r.headers().get("Retry-After"));
        },
        "org.springframework:spring-web", () ->
            org.springframework.web.client.RestClient.create(URL).get().retrieve().body(String.class),
        "io.github.openfeign:feign-core", () ->
            feign.Feign.builder().target(Api.class, URL).things(),
        "org.eclipse.jetty:jetty-client", () -> {
            var c = new org.eclipse.jetty.client.HttpClient();
            c.start();
            var r = c.GET(URL);
            return got(r.getStatus(), r.getHeaders().get("Retry-After"));
        }
    ));

    static {
        clients.putAll(Map.of(
        "com.google.http-client:google-http-client", () -> {
            var q = new com.google.api.client.http.javanet.NetHttpTransport().createRequestFactory()
                .buildGetRequest(new com.google.api.client.http.GenericUrl(URL));
            q.setUnsuccessfulResponseHandler(new com.google.api.client.http.HttpBackOffUnsuccessfulResponseHandler(
                new com.google.api.client.util.ExponentialBackOff()));
            return q.execute().parseAsString();
        },
        "com.konghq:unirest-java-core", () -> {
            var unirest = kong.unirest.core.Unirest.spawnInstance();
            unirest.config().retryAfter(true);
            var r = unirest.get(URL).asString();
            return got(r.getStatus(), r.getHeaders().getFirst("Retry-After"));
        },
        "com.stripe:stripe-java", () -> {
            com.stripe.Stripe.apiKey = "sk_test_1";
            com.stripe.Stripe.overrideApiBase(URL);
            return com.stripe.model.Charge.create(Map.of("amount", 1, "currency", "eur"));
        },
        "com.slack.api:slack-api-client", () -> {
            var config = new com.slack.api.SlackConfig();
            config.setMethodsEndpointUrlPrefix(URL + "/");
            return com.slack.api.Slack.getInstance(config).methods("x").chatPostMessage(q -> q.channel("c").text("t"));
        },
        "com.openai:openai-java", () -> com.openai.client.okhttp.OpenAIOkHttpClient.builder().apiKey("x").baseUrl(URL)
            .build().models().retrieve("m"),
        "com.anthropic:anthropic-java", () -> com.anthropic.client.okhttp.AnthropicOkHttpClient.builder().apiKey("x")
            .baseUrl(URL).build().models().retrieve("m"),
        "org.gitlab4j:gitlab4j-api", () -> new org.gitlab4j.api.GitLabApi(URL, "x").getProjectApi().getProject(1L)
        ));
    }

    public static void main(String[] names) {
        String said;
        try {
            var r = String.valueOf(clients.get(names[0]).call());
            said = r.startsWith("answer") ? r : "success: " + r.replaceAll("\\s+", " ");
        } catch (Throwable e) {
            var text = String.valueOf(e.getMessage()).replace(URL, "URL").replaceAll("\\s+", " ");
            said = e.getClass().getSimpleName() + " \"" + text.substring(0, Math.min(110, text.length())) + "\"";
        }
        System.out.println("saw " + said);
        System.exit(0);
    }
}
J
if [[ -n "${LIB:-}" ]]; then
	ln -s "$LIB" lib
else
	{
		echo '<project><modelVersion>4.0.0</modelVersion><groupId>d</groupId><artifactId>denied</artifactId><version>1</version>'
		# Otherwise gitlab4j-api gives openai-java a Jackson that is too old for it.
		echo '<dependencyManagement><dependencies><dependency><groupId>com.fasterxml.jackson</groupId>'
		echo '<artifactId>jackson-bom</artifactId><version>2.19.4</version><type>pom</type><scope>import</scope>'
		echo '</dependency></dependencies></dependencyManagement><dependencies>'
		while IFS=': ' read -r group artifact version; do
			[[ -n "$group" ]] || continue
			echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
		done <<<"$pins"
		echo '</dependencies></project>'
	} >pom.xml
	mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >&2
fi
javac -nowarn -cp 'lib/*' -d . Client.java >&2
java=$(java --version | awk 'NR == 1 { print $2 }')
ask_pins Java java -cp 'lib/*:.' Client <<<"java.net.http $java
HttpURLConnection $java
$pins"
