#!/usr/bin/env bash
# throttled-py 3.5.0 (2026-11-28), five algorithms behind one interface, in memory.
# Guess: a cost of 5 under a limit of 2 is refused by all five in the same way: nothing is
# taken, and no finite wait is told, since none helps.
# Seen: both windows count the refused request, so the next one is refused; the buckets and
# GCRA take nothing. All five tell a finite wait for the cost that never fits: the rest of
# the window, or an hour and a half, in which the two units are full long before.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q install throttled-py==3.5.0
cat >"$dir/costs.py" <<'P'
from throttled import Throttled, rate_limiter

for using in ("fixed_window", "sliding_window", "token_bucket", "leaking_bucket", "gcra"):
    t = Throttled(key=using, using=using, quota=rate_limiter.per_hour(2))
    large, small = t.limit(cost=5), t.limit(cost=1)
    wait = large.state.retry_after
    print(f"{using:15} cost 5 refused: {large.limited}, wait {wait:.0f} s; then cost 1 refused: {small.limited}")
    window = using.endswith("window")
    assert large.limited and small.limited == window
    assert 0 < wait <= 7200 if window else round(wait) == 5400
P
"$dir/venv/bin/python" "$dir/costs.py"
