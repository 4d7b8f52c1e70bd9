// Serves a page behind rate-limiter-flexible, which counts in Redis if STORE is set. The fields are those of its
// README, and Retry-After is in whole seconds, rounded up, as RFC 9110 has it.
import { once } from 'node:events';
import http from 'node:http';
import { Redis } from 'ioredis';
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';

const options = { points: 10, duration: 2 };
let limiter = new RateLimiterMemory(options);
if (process.env.STORE) {
  const storeClient = new Redis(process.env.STORE, { enableOfflineQueue: false });
  storeClient.on('error', () => {});
  await once(storeClient, 'ready');
  limiter = new RateLimiterRedis({ ...options, storeClient });
}
http.createServer(async (request, response) => {
  let status = 200;
  const result = await limiter.consume(request.headers['x-api-key'] ?? '').catch((denial) => {
    status = denial instanceof Error ? 500 : 429;
    return denial;
  });
  if (status !== 500) {
    response.setHeader('X-RateLimit-Limit', options.points);
    response.setHeader('X-RateLimit-Remaining', result.remainingPoints);
    response.setHeader('X-RateLimit-Reset', Math.ceil((Date.now() + result.msBeforeNext) / 1000));
  }
  if (status === 429) response.setHeader('Retry-After', Math.ceil(result.msBeforeNext / 1000));
  response.writeHead(status).end('Hello.\n');
}).listen(process.env.PORT, '127.0.0.1');
