package parity

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// callTable is a transcript like table. A line "> First" is a call of a service's Unary, and ">
// First Down" one of its stream, with the fields behind it. The answer is the code, the fields of
// limits, the details, and the message of the error.
//
//go:embed call_table.txt
var callTable string

// RunCalls runs every scenario of the table of calls and every test of their behaviour.
func RunCalls[R any](t *testing.T, a Caller[R]) {
	t.Run("table", func(t *testing.T) { runCallTable(t, a) })
	t.Run("behaviour", func(t *testing.T) { runCallBehaviour(t, a) })
}

func runCallTable[R any](t *testing.T, a Caller[R]) {
	runScenarios(t, callTable, callScenarios(a), func(t *testing.T, app CallApp[R], want string) {
		if a.WholeSeconds {
			want = inWholeSeconds(t, want)
		}
		same(t, want, callTranscript(t, a, app, want))
	})
}

// inWholeSeconds returns a transcript with the waits of RetryInfo rounded up.
func inWholeSeconds(t *testing.T, transcript string) string {
	t.Helper()
	lines := strings.Split(transcript, "\n")
	for i, line := range lines {
		if retry, ok := strings.CutPrefix(line, "< retry: "); ok {
			wait, err := time.ParseDuration(retry)
			if err != nil {
				t.Fatal(err)
			}
			lines[i] = fmt.Sprint("< retry: ", (wait + time.Second - 1).Truncate(time.Second))
		}
	}
	return strings.Join(lines, "\n")
}

// callTranscript sends the calls in want to app and returns the transcript.
func callTranscript[R any](t *testing.T, a Caller[R], app CallApp[R], want string) string {
	t.Helper()
	ledger := newLedger()
	for _, c := range []*Config[R]{app.Site, app.Group} {
		if c == nil {
			continue
		}
		if c.Fallback = ledger; c.Backend == nil {
			c.Backend = ledger
		}
	}
	client := a.Open(t, app)
	var b strings.Builder
	lines := strings.Split(want, "\n")
	for i := 0; i < len(lines); i++ {
		if after, ok := strings.CutPrefix(lines[i], "after "); ok {
			d, err := time.ParseDuration(after)
			if err != nil {
				t.Fatal(err)
			}
			ledger.advance(d)
			fmt.Fprintf(&b, "\n%s\n", lines[i])
		}
		if !strings.HasPrefix(lines[i], "> ") {
			continue
		}
		first := i
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "> ") {
			i++
		}
		callAndTell(t, &b, client, lines[first:i+1])
	}
	ledger.write(&b)
	return b.String()
}

// callAndTell makes a call and writes the answer to b.
func callAndTell(t *testing.T, b *strings.Builder, client CallClient, lines []string) {
	t.Helper()
	fields := make(http.Header)
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "> "), ": ")
		fields.Add(name, value)
	}
	service, method, streams := strings.Cut(strings.TrimPrefix(lines[0], "> "), " ")
	var answer CallAnswer
	if streams {
		stream := client.Stream(t.Context(), method, fields)
		stream.CloseSend()
		for {
			if _, err := stream.Receive(); err != nil {
				break
			}
		}
		answer = stream.Answer()
	} else {
		answer = client.Call(t.Context(), service, fields, fields.Get("X-Message"))
	}
	if b.Len() > 0 {
		fmt.Fprintln(b)
	}
	for _, line := range lines {
		fmt.Fprintln(b, line)
	}
	fmt.Fprintf(b, "< %s\n", codeName(answer.Code))
	var told []string
	for name, values := range answer.Fields {
		if name := strings.ToLower(name); strings.Contains(name, "ratelimit") || name == "retry-after" ||
			name == "x-quota" || name == "x-shadow" {
			told = append(told, name+": "+strings.Join(values, ", "))
		}
	}
	slices.Sort(told)
	for _, field := range told {
		fmt.Fprintf(b, "< %s\n", field)
	}
	if answer.Retry > 0 {
		fmt.Fprintf(b, "< retry: %v\n", answer.Retry)
	}
	if len(answer.Violated) > 0 {
		fmt.Fprintf(b, "< violated: %s\n", strings.Join(answer.Violated, ", "))
	}
	if answer.Text != "" {
		fmt.Fprintf(b, "< %s\n", answer.Text)
	}
}

func codeName(code uint32) string {
	switch code {
	case CodeOK:
		return "ok"
	case CodeResourceExhausted:
		return "resource exhausted"
	case CodeUnavailable:
		return "unavailable"
	case CodeAborted:
		return "aborted"
	}
	return fmt.Sprint("code ", code)
}

// callScenarios returns the applications of the table by name.
func callScenarios[R any](a Caller[R]) map[string]CallApp[R] {
	one := func(name string, limit limits.Limit, key func(R) (string, error)) *Config[R] {
		return &Config[R]{Config: core.Config[R]{
			Rules: []core.Rule[R]{{Name: name, Limit: limit, Key: key}}}}
	}
	perMinute := func(name string, n int64) *Config[R] {
		return one(name, limits.FixedWindow(limits.PerMinute(n)), a.Lift(client))
	}
	with := func(c *Config[R], change func(*Config[R])) CallApp[R] {
		change(c)
		return CallApp[R]{Site: c}
	}
	formats := func(formats ...headers.Format) CallApp[R] {
		return with(perMinute("per-client", 1), func(c *Config[R]) { c.Headers.Formats = formats })
	}
	fails := func(failure core.FailurePolicy) CallApp[R] {
		return with(perMinute("per-client", 1),
			func(c *Config[R]) { c.Backend, c.Rules[0].OnFailure = down{}, failure })
	}
	everybody := keyfuncs.Constant[R]("all")
	return map[string]CallApp[R]{
		"a client is denied, told when to come back, and may": {
			Site: one("per-client", limits.TokenBucket(limits.PerMinute(2), 2), a.Lift(client))},
		"unary calls and streams of a client count together": {Site: perMinute("per-client", 4)},
		"a cost that never fits": with(perMinute("per-client", 3),
			func(c *Config[R]) { c.Rules[0].Cost = func(r R) int64 { return int64(len(a.Message(r))) } }),
		"a client without an identity": {Site: perMinute("per-client", 1)},
		"a client without an identity, failing open": with(perMinute("per-client", 1),
			func(c *Config[R]) { c.Rules[0].OnFailure = core.FailOpen }),
		"the backend fails: fall back": fails(core.FallBack),
		"the backend fails: open":      fails(core.FailOpen),
		"the backend fails: closed":    fails(core.FailClosed),
		"the service is full": with(perMinute("capacity", 1),
			func(c *Config[R]) { c.Rules[0].DenyAs503 = true }),
		"a denial of the application's own": with(perMinute("per-client", 1),
			func(c *Config[R]) { c.Sorry = true }),
		"stacked limiters": {Site: perMinute("site", 3), Group: perMinute("group", 1)},
		"methods count apart": {
			Site: one("method", limits.FixedWindow(limits.PerMinute(1)), a.Method)},
		"services count apart": {
			Site: one("service", limits.FixedWindow(limits.PerMinute(1)), a.Service)},
		"a token, else an address": {
			Site: one("caller", limits.FixedWindow(limits.PerMinute(1)),
				keyfuncs.First(a.Lift(keyfuncs.BearerToken), a.Lift(client)))},
		"metadata that may be left out": {
			Site: one("tenant", limits.FixedWindow(limits.PerMinute(1)), a.Lift(tenant))},
		"a shadow denies nothing": with(perMinute("new", 1),
			func(c *Config[R]) { c.Rules[0].Mode, c.Headers.ShadowField = core.Shadow, "X-Shadow" }),
		"an anchored window": {
			Site: one("per-client", limits.AnchoredWindow(limits.PerMinute(1)), a.Lift(client))},
		"a sliding window": {
			Site: one("per-client", limits.SlidingWindow(limits.PerMinute(1)), a.Lift(client))},
		"a queue lets calls through one by one": {
			Site: one("queue", limits.LeakyQueue(limits.PerSecond(1000), 2), a.Lift(client))},
		"the fields of draft 7": formats(headers.Draft7),
		"the fields of GitHub":  formats(headers.IETF, headers.GitHub),
		"fields of the application's own": with(perMinute("per-client", 1),
			func(c *Config[R]) { c.Headers.Custom = quota }),
		"fields on denials only": with(perMinute("per-client", 1),
			func(c *Config[R]) { c.Headers.Show = headers.OnDenial }),
		"no fields but retry-after": with(perMinute("per-client", 1),
			func(c *Config[R]) { c.Headers.Show = headers.Omit }),
		"the name of a rule is a text": {Site: perMinute(`say "hi" \ bye`, 1)},
		"a wait that is a window": with(
			one("per-client", limits.TokenBucket(limits.PerMinute(2), 1), a.Lift(client)),
			func(c *Config[R]) { c.Headers.RetryAfter = headers.Window }),
		"those who wait together are told a turn each": with(
			one("all", limits.TokenBucket(limits.PerMinute(2), 1), everybody),
			func(c *Config[R]) { c.Headers.MaxPromise = 70 * time.Second }),
		"limits by plan": with(perMinute("plan", 1), func(c *Config[R]) {
			c.Rules[0].Limit, c.Rules[0].LimitFor = limits.Limit{}, withoutKey(a.LiftLimit(plan))
		}),
		"a rule that is not published": with(perMinute("hidden", 1),
			func(c *Config[R]) { c.Rules[0].Hidden = true }),
		"several rules, all or nothing": {Site: &Config[R]{Config: core.Config[R]{Rules: []core.Rule[R]{
			{Name: "wide", Limit: limits.FixedWindow(limits.PerMinute(3)), Key: everybody},
			{Name: "narrow", Limit: limits.FixedWindow(limits.PerMinute(1)), Key: a.Lift(client)},
			{Name: "second", Limit: limits.SlidingLog(limits.PerHour(1)),
				Key: core.When(func(r R) bool { s, _ := a.Service(r); return s == "parity.v1.Second" },
					a.Lift(client))},
		}}}},
	}
}

// drain receives all messages from stream and returns its end.
func drain(stream ClientMessages) CallAnswer {
	for {
		if _, err := stream.Receive(); err != nil {
			return stream.Answer()
		}
	}
}

// Echo is the default handler of streams.
func Echo(_ context.Context, stream ServerMessages) error {
	for {
		if _, err := stream.Receive(); err == io.EOF {
			return stream.Send("hello")
		} else if err != nil {
			return err
		}
	}
}
