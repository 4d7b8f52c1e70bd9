package client_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// A diary has what Observe was told, one word for each event. What pauses and resumes has its time
// in whole seconds, rounded, and what asked for it.
type diary struct{ entries []string }

func (d *diary) observe(e client.Event) {
	entry := e.Kind.String()
	if e.Kind == client.Paused || e.Kind == client.Resumed {
		entry += fmt.Sprintf(" %v %s", e.Wait.Round(time.Second), e.Source)
	}
	d.entries = append(d.entries, entry)
}

func (d *diary) want(t *testing.T, entries ...string) {
	t.Helper()
	if !slices.Equal(d.entries, entries) {
		t.Errorf("told %q, want %q", d.entries, entries)
	}
}

func TestTheEndOfAPauseIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		server answers
		do     func(c http.RoundTripper)
		want   []string
	}{
		"a denial that is repeated": {
			once("Retry-After", "5"),
			func(c http.RoundTripper) { get(c, "http://a/") },
			[]string{"limited", "repeated", "held", "resumed 5s Retry-After"},
		},
		"a denial that goes back": {
			once("Retry-After", "60"),
			func(c http.RoundTripper) {
				get(c, "http://a/")
				get(c, "http://a/")
				time.Sleep(62 * time.Second)
				get(c, "http://a/")
				get(c, "http://a/")
			},
			[]string{"limited", "gave up", "gave up", "resumed 1m2s Retry-After"},
		},
		"several denials": {
			func(n int, _ *http.Request) *http.Response {
				if n < 3 {
					return answer(429, "Retry-After", "2")
				}
				return answer(200)
			},
			func(c http.RoundTripper) { get(c, "http://a/") },
			[]string{"limited", "repeated", "held", "limited", "repeated", "held", "resumed 4s Retry-After"},
		},
		"nothing is left": {
			func(n int, _ *http.Request) *http.Response {
				return answer(200, "RateLimit", fmt.Sprintf(`"a";r=%d;t=10`, 9*(n-1)))
			},
			func(c http.RoundTripper) { get(c, "http://a/"); get(c, "http://a/"); get(c, "http://a/") },
			[]string{"paused 10s RateLimit", "held", "resumed 10s RateLimit"},
		},
		"nothing is left again and again": {
			always(200, "RateLimit", `"a";r=0;t=1`),
			func(c http.RoundTripper) { get(c, "http://a/"); get(c, "http://a/"); get(c, "http://a/") },
			[]string{
				"paused 1s RateLimit", "held", "resumed 1s RateLimit", "paused 1s RateLimit", "held",
				"resumed 1s RateLimit", "paused 1s RateLimit",
			},
		},
		"something is left": {
			always(200, "RateLimit", `"a";r=9;t=10`),
			func(c http.RoundTripper) { get(c, "http://a/"); get(c, "http://a/") },
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				test.do(newClient(t, scripted(test.server), client.Options{Observe: d.observe}))
				d.want(t, test.want...)
			})
		})
	}
}

// A secondary limit holds back all resources of an account. Its end is told of the bucket that was
// denied.
func TestTheEndOfAPauseOfAnAccountIsToldOfTheBucketThatWasDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return answer(403, "Retry-After", "5")
			}
			return answer(200)
		})
		var buckets []string
		c := newClient(t, server, client.Options{Dialect: client.GitHub, Attempts: 1,
			Observe: func(e client.Event) {
				if e.Kind == client.Limited || e.Kind == client.Resumed {
					buckets = append(buckets, e.Kind.String()+" "+e.Bucket)
				}
			}})
		get(c, "https://api.github.com/search/issues")
		get(c, "https://api.github.com/user")
		if len(buckets) != 2 || !strings.HasPrefix(buckets[1], "resumed ") ||
			strings.TrimPrefix(buckets[1], "resumed ") != strings.TrimPrefix(buckets[0], "limited ") {
			t.Errorf("told %q, want the end for the bucket of search", buckets)
		}
	})
}

// Requests that were under way when another was denied say nothing of its end.
func TestAnAnswerToAnEarlierRequestEndsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, r *http.Request) *http.Response {
			switch r.URL.Path {
			case "/slow":
				time.Sleep(2 * time.Second)
			case "/denied":
				if n < 4 {
					return answer(429, "Retry-After", "5")
				}
			}
			return answer(200)
		})
		var d diary
		c := newClient(t, server, client.Options{Observe: d.observe})
		get(c, "http://a/")
		done := make(chan struct{})
		go func() { get(c, "http://a/slow"); close(done) }()
		synctest.Wait()
		get(c, "http://a/denied")
		<-done
		d.want(t, "limited", "repeated", "held", "resumed 5s Retry-After")
	})
}
