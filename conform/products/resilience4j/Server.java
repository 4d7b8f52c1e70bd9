import com.sun.net.httpserver.HttpServer;
import io.github.resilience4j.ratelimiter.RateLimiterConfig;
import io.github.resilience4j.ratelimiter.RateLimiterRegistry;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.Executors;

/** Serves a page behind a rate limiter of resilience4j for each key. */
public class Server {
    public static void main(String[] args) throws Exception {
        var limiters = RateLimiterRegistry.of(RateLimiterConfig.custom()
            .limitForPeriod(10).limitRefreshPeriod(Duration.ofSeconds(2)).timeoutDuration(Duration.ZERO).build());
        var server = HttpServer.create(
            new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            try (exchange) {
                var key = exchange.getRequestHeaders().getFirst("X-API-Key");
                var allowed = limiters.rateLimiter(key == null ? "" : key).acquirePermission();
                exchange.sendResponseHeaders(allowed ? 200 : 429, -1);
            }
        });
        server.start();
    }
}
