#!/usr/bin/env bash
# @ai-sdk/anthropic 4.0.105 with ai 7.0.173 for Node (2026-11-29) on an answer after a compaction, as Anthropic documents it:
# usage.iterations has two runs of the model that are billed, and the top level repeats the last one.
# Guess: tokens of input and output are the sums of both runs, and so are those of the cache.
# Seen: input without the cache and output are summed, and the cache is that of the top level alone: 203,500
# tokens of input where 210,500 are billed, 7,000 of them at the price of a cache. A
# program that computes costs from the usage is short by one run's cache, which grows with each compaction.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit ai@7.0.173 @ai-sdk/anthropic@4.0.105
cat >usage.mjs <<'J'
import assert from 'node:assert'
import { createAnthropic } from '@ai-sdk/anthropic'
import { generateText } from 'ai'

const run = (type, input, output, read) => ({
  type, input_tokens: input, output_tokens: output, cache_read_input_tokens: read, cache_creation_input_tokens: 0,
})
const body = {
  id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-opus-4-6', stop_reason: 'end_turn', stop_sequence: null,
  content: [{ type: 'text', text: 'done' }],
  usage: {
    input_tokens: 23000, output_tokens: 1000, cache_read_input_tokens: 500, cache_creation_input_tokens: 0,
    iterations: [run('compaction', 180000, 3500, 7000), run('message', 23000, 1000, 500)],
  },
}
const anthropic = createAnthropic({
  apiKey: 'x', fetch: async () => new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } }),
})
const { usage } = await generateText({ model: anthropic('claude-opus-4-6'), prompt: 'go on' })
const { noCacheTokens, cacheReadTokens } = usage.inputTokenDetails
console.log({ noCacheTokens, cacheReadTokens, outputTokens: usage.outputTokens, inputTokens: usage.inputTokens })
assert.deepEqual([noCacheTokens, usage.outputTokens], [203000, 4500]) // of both runs
assert.equal(cacheReadTokens, 500) // of one
J
node usage.mjs
