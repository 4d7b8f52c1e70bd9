import com.sun.net.httpserver.HttpServer;
import io.github.bucket4j.Bucket;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.function.Function;

/** Serves a page behind bucket4j, which counts in Redis if STORE is set. Retry-After is its wait, rounded up. */
public class Server {
    public static void main(String[] args) throws Exception {
        var limit = BucketConfiguration.builder()
            .addLimit(l -> l.capacity(10).refillGreedy(10, Duration.ofSeconds(2))).build();
        var buckets = new ConcurrentHashMap<String, Bucket>();
        Function<String, Bucket> of = key -> buckets.computeIfAbsent(key, k -> Bucket.builder()
            .addLimit(limit.getBandwidths()[0]).build());
        var store = System.getenv("STORE");
        if (store != null && !store.isEmpty()) {
            var uri = RedisURI.create(store);
            uri.setTimeout(Duration.ofSeconds(1)); // it is a minute otherwise
            var manager = Bucket4jLettuce.casBasedBuilder(RedisClient.create(uri)).expirationAfterWrite(
                ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10))).build();
            of = key -> manager.builder().build(key.getBytes(StandardCharsets.UTF_8), () -> limit);
        }
        var bucketOf = of;
        var server = HttpServer.create(
            new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            try {
                var key = exchange.getRequestHeaders().getFirst("X-API-Key");
                var probe = bucketOf.apply(key == null ? "" : key).tryConsumeAndReturnRemaining(1);
                exchange.getResponseHeaders().set("X-RateLimit-Limit", "10");
                exchange.getResponseHeaders().set("X-RateLimit-Remaining", "" + probe.getRemainingTokens());
                if (!probe.isConsumed()) {
                    var seconds = (probe.getNanosToWaitForRefill() + 999_999_999) / 1_000_000_000;
                    exchange.getResponseHeaders().set("Retry-After", "" + seconds);
                }
                exchange.sendResponseHeaders(probe.isConsumed() ? 200 : 429, -1);
            } catch (RedisException e) {
                exchange.sendResponseHeaders(500, -1);
            } finally {
                exchange.close();
            }
        });
        server.start();
    }
}
