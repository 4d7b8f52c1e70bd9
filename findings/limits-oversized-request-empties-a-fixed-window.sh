#!/usr/bin/env bash
# limits 5.8.0 for Python (2026-11-28), the engine of slowapi and Flask-Limiter, in memory.
# Guess: a request whose cost is above the limit is refused and takes nothing, by all three
# strategies; a cost of 0 is always let through; "10/0second" is an error.
# Seen: under the fixed window the refused request has used up the window, and the two that
# follow are refused, a free one too; under the other two strategies it took nothing.
# "10/0second" is read as 10 a second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q install limits==5.8.0
cat >"$dir/costs.py" <<'P'
from limits import parse, storage, strategies

want = {
    "FixedWindowRateLimiter": [False, False, False],
    "MovingWindowRateLimiter": [False, True, True],
    "SlidingWindowCounterRateLimiter": [False, True, True],
}
for name, answers in want.items():
    limiter = getattr(strategies, name)(storage.MemoryStorage())
    two = parse("2/hour")
    seen = [limiter.hit(two, "k", cost=c) for c in (3, 1, 0)]
    print(name, "limit 2, costs 3, 1, 0:", seen)
    assert seen == answers, name
zero = parse("10/0second")
print("10/0second is", zero, "with a period of", zero.get_expiry(), "s")
assert str(zero) == "10 per 1 second" and zero.get_expiry() == 1
P
"$dir/venv/bin/python" "$dir/costs.py"
