// Serves a page of Express behind express-rate-limit, which counts in Redis if STORE is set.
import express from 'express';
import { rateLimit } from 'express-rate-limit';
import { RedisStore } from 'rate-limit-redis';
import { createClient } from 'redis';

let store;
if (process.env.STORE) {
  const client = createClient({ url: process.env.STORE });
  client.on('error', () => {}); // without it Node ends when Redis goes away
  await client.connect();
  store = new RedisStore({ sendCommand: (...args) => client.sendCommand(args) });
}
const app = express();
app.set('trust proxy', 'loopback');
app.use(rateLimit({ windowMs: 2000, limit: 10, standardHeaders: 'draft-8', legacyHeaders: false, store }));
app.all('/', (request, response) => response.send('Hello.\n'));
app.listen(process.env.PORT, '127.0.0.1');
