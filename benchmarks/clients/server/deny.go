package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
)

// answers are the ways in which weir answers.
var answers = map[string]func(*nethttp.Config){
	"default": func(*nethttp.Config) {},
	"bots":    func(c *nethttp.Config) { c.Headers.Body = headers.Bots },
	"plain":   func(c *nethttp.Config) { c.Denied = nethttp.PlainText },
	"github": func(c *nethttp.Config) {
		c.Headers.Formats = []headers.Format{headers.GitHub}
	},
	"github bots": func(c *nethttp.Config) {
		c.Headers.Formats, c.Headers.Body = []headers.Format{headers.GitHub}, headers.Bots
	},
	"openai": func(c *nethttp.Config) {
		c.Headers.Formats = []headers.Format{headers.IETF, headers.OpenAI}
	},
	"anthropic": func(c *nethttp.Config) {
		c.Headers.Formats = []headers.Format{headers.IETF, headers.Anthropic}
	},
	"gitlab": func(c *nethttp.Config) {
		c.Headers.Formats = []headers.Format{}
		c.Headers.Custom = func(h http.Header, o core.Outcome) {
			i := o.BindingRule()
			if i < 0 {
				return
			}
			rule, wait := o.At(i), o.RetryAfter()
			if o.Allowed() {
				wait = rule.ResetAfter
			}
			rate := rule.Limit().Rate()
			set := func(name string, n int64) { h.Set(name, strconv.FormatInt(n, 10)) }
			set("RateLimit-Limit", max(1, int64(float64(rate.Units)*60/rate.Period.Seconds())))
			set("RateLimit-Remaining", rule.Remaining)
			if wait != limits.Never {
				set("RateLimit-Reset", time.Now().Add(wait+time.Second).Unix())
			}
		}
	},
	"discord": func(c *nethttp.Config) {
		c.Headers.Formats, c.Headers.Body = []headers.Format{headers.Discord}, headers.Bots
	},
	"no field": func(c *nethttp.Config) {
		c.Denied = func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
			w.Header().Del("Retry-After")
			own(`{"errors":"Exceeded 2 calls per second"}`)(w, r, o)
		}
	},
	"hubspot": func(c *nethttp.Config) {
		c.Denied = own(`{"status":"error","message":"You have reached your limit",` +
			`"errorType":"RATE_LIMIT","policyName":"TEN_SECONDLY_ROLLING"}`)
	},
	"stripe retry": func(c *nethttp.Config) {
		c.Headers.Custom = func(h http.Header, _ core.Outcome) {
			h.Set("Stripe-Should-Retry", "true")
		}
	},
}

func answerNames() []string { return slices.Sorted(maps.Keys(answers)) }

// own returns a Denied that answers with body.
func own(body string) func(http.ResponseWriter, *http.Request, core.Outcome) {
	return func(w http.ResponseWriter, _ *http.Request, o core.Outcome) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(o.Status())
		io.WriteString(w, body)
	}
}

// denier returns weir as it denies every request.
func denier(name, answer string) (http.Handler, error) {
	set, known := answers[answer]
	if !known {
		return nil, fmt.Errorf("there is no answer %q", answer)
	}
	switch name {
	case "503":
		return full(), nil
	case "429":
		return limited(2*time.Second, set), nil
	case "hour":
		return limited(time.Hour, set), nil
	case "bare":
		return limited(time.Hour, func(c *nethttp.Config) {
			set(c)
			c.Headers.MaxRetryAfter = time.Minute
		}), nil
	default:
		return limited(time.Second, func(c *nethttp.Config) {
			set(c)
			apart(c)
		}), nil
	}
}

// limited returns a limiter of one request in a period, which another client always takes first.
func limited(period time.Duration, set func(*nethttp.Config)) http.Handler {
	config := nethttp.Config{Rules: []nethttp.Rule{{
		Name:  "per_client",
		Limit: limits.TokenBucket(limits.Per(1, period), 1),
		Key:   keyfuncs.Constant[*http.Request]("all"),
	}}}
	set(&config)
	limiter := nethttp.MustNew(config)
	handler := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "{}")
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		handler.ServeHTTP(w, r)
	})
}

// apart makes the fields of a denial differ, so that a wait tells which one was read: Retry-After
// says 1, RateLimit 3 and the body 4 seconds.
func apart(c *nethttp.Config) {
	custom := c.Headers.Custom
	c.Headers.Custom = func(h http.Header, o core.Outcome) {
		if custom != nil {
			custom(h, o)
		}
		if o.RetryAfter() > 0 {
			h["RateLimit"] = []string{`"per_client";r=0;t=3`}
		}
	}
	denied := c.Denied
	c.Denied = func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
		if denied != nil {
			denied(w, r, o)
			return
		}
		const text = "Too many requests: retry in 4 seconds."
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(o.Status())
		json.NewEncoder(w).Encode(map[string]any{
			"title": "Quota Exceeded", "status": 429, "detail": text, "message": text,
			"error": map[string]string{
				"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": text,
			},
			"retry_after": 4, "ok": false, "code": "rate_limited", "error_code": 429,
			"description": text, "parameters": map[string]int{"retry_after": 4},
		})
	}
}

// full returns a shedder whose only place is taken.
func full() http.Handler {
	taken, entered := make(chan struct{}), make(chan struct{})
	handler := shed.Handler(shed.MustNew(shed.Options[*http.Request]{Limit: 1}),
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-taken }))
	go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	<-entered
	return handler
}
