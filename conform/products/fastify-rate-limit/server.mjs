// Serves a page of Fastify behind @fastify/rate-limit, which counts in Redis if STORE is set.
import rateLimit from '@fastify/rate-limit';
import Fastify from 'fastify';
import { Redis } from 'ioredis';

const options = { max: 10, timeWindow: 2000, cache: 200_000 };
if (process.env.STORE) {
  options.redis = new Redis(process.env.STORE, { connectTimeout: 500, maxRetriesPerRequest: 1 });
  options.redis.on('error', () => {});
}
const fastify = Fastify({ trustProxy: '127.0.0.0/8' });
await fastify.register(rateLimit, options);
fastify.all('/', async () => 'Hello.\n');
await fastify.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
