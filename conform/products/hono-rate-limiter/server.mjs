// Serves a page of Hono behind hono-rate-limiter, which counts in Redis if STORE is set.
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { RedisStore, rateLimiter } from 'hono-rate-limiter';
import { Redis } from 'ioredis';

const options = {
  windowMs: 2000, limit: 10, standardHeaders: 'draft-6',
  keyGenerator: (c) => c.req.header('X-API-Key') ?? '',
};
if (process.env.STORE) {
  const redis = new Redis(process.env.STORE, { maxRetriesPerRequest: 1 });
  redis.on('error', () => {});
  options.store = new RedisStore({ client: { // the commands that it asks for
    scriptLoad: (script) => redis.script('LOAD', script),
    evalsha: (sha, keys, args) => redis.evalsha(sha, keys.length, ...keys, ...args),
    decr: (key) => redis.decr(key),
    del: (key) => redis.del(key),
  } });
}
const app = new Hono();
app.use(rateLimiter(options));
app.all('/', (c) => c.text('Hello.\n'));
serve({ fetch: app.fetch, hostname: '127.0.0.1', port: Number(process.env.PORT) });
