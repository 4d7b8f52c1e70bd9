package tokens

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// API is an interface to models. It says which members of a request bound the output, and so how
// much the request may use.
type API uint8

const (
	// ChatCompletions is OpenAI's POST /v1/chat/completions, which many other servers have. The
	// output of a request is max_completion_tokens or max_tokens, whichever is more, times n.
	ChatCompletions API = iota + 1
	// Responses is OpenAI's POST /v1/responses. The output is max_output_tokens.
	Responses
	// Messages is Anthropic's POST /v1/messages. The output is max_tokens.
	Messages
)

// String returns the last words of the path, such as "chat/completions".
func (a API) String() string {
	switch a {
	case ChatCompletions:
		return "chat/completions"
	case Responses:
		return "responses"
	case Messages:
		return "messages"
	}
	return fmt.Sprintf("API(%d)", uint8(a))
}

// Config configures a [Meter]. The zero value of each field is a usable default.
type Config struct {
	// Prices are the prices of models, by their names in requests. If there are any, a request for
	// another model is refused. The model "" is that of requests that name none. nil: rules of
	// [ByPrice] fail.
	Prices map[string]Price

	// Output is the estimated output, in tokens, of each choice of a request that names no maximum,
	// or one of 0. The limits are exact only if the models write no more. 0: 4096.
	Output int64

	// Count counts the input tokens of a request by its body, which it must not change. The body has
	// empty texts in place of pictures and other media in base64. A negative number means one token
	// a byte, which is never too low for text. nil: a token for each four bytes, rounded up.
	Count func(body []byte) int64

	// Media counts the input tokens of a picture, a recording, a video or another file that a body
	// has in base64. mediaType is that of the body, such as "image/png", or ""; data is what stands
	// there. A negative number means what nil does. nil: a fixed number, 5000 for a picture, 10,000
	// for a recording, 80,000 for a video, and 25,000 for another file.
	Media func(mediaType string, data []byte) int64

	// CountText lets an event stream that ends without its usage cost the text that it has shown,
	// instead of the estimated output: a token for each four bytes of an event, rounded up. Clients
	// that stop an answer then pay for what they have seen. Set it only if the models show all that
	// they write: otherwise a client that leaves early, or does not ask for the usage, reasons for
	// nothing.
	CountText bool

	// MaxBody is the longest body of a request in bytes. A body is in memory until next has read
	// it. 0: 4 MiB.
	MaxBody int64

	// Observe is called at the end of each request that [Meter.Handler] has passed to next, after
	// its cost was charged: for bills, logs and counters. nil: none.
	Observe func(*http.Request, *Call)
}

const (
	defaultOutput  = 4096
	defaultMaxBody = 4 << 20
	longestModel   = 200 // bytes; a key has at most 253
)

// Meter estimates what requests use, and reads what answers have used. It is safe for concurrent
// use.
type Meter struct {
	config  Config
	dearest Price // of all models, tiers and lengths
}

// New returns a meter. The error reports every mistake in config.
func New(config Config) (*Meter, error) {
	var mistakes []error
	check := func(n int64, field string, args ...any) {
		if n < 0 {
			mistakes = append(mistakes, fmt.Errorf("tokens: %s: must not be negative (got %d)",
				fmt.Sprintf(field, args...), n))
		}
	}
	for _, model := range slices.Sorted(maps.Keys(config.Prices)) {
		config.Prices[model].check(func(n int64, field string) {
			check(n, "price of %.30q: %s", model, field)
		})
	}
	check(config.Output, "output")
	check(config.MaxBody, "max body")
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	m := &Meter{config: config}
	m.config.Prices = maps.Clone(config.Prices)
	for model, price := range m.config.Prices {
		m.config.Prices[model] = price.clone()
		m.dearest = m.dearest.or(price.ever())
	}
	m.config.Output = cmp.Or(config.Output, defaultOutput)
	m.config.MaxBody = cmp.Or(config.MaxBody, defaultMaxBody)
	return m, nil
}

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Meter {
	m, err := New(config)
	if err != nil {
		panic(err)
	}
	return m
}

// Estimate reads the body of a request, a JSON object, and returns the Call with its estimate. The
// error is for the client: the body is no such object, a model has no price, or a member that
// counts has a value that servers may read in different ways: it is there twice, spelled in other
// letters, or is no whole number. The Call keeps nothing of body.
func (m *Meter) Estimate(api API, body []byte) (*Call, error) {
	asked, err := read(api, body)
	if err != nil {
		return nil, err
	}
	_, known := m.config.Prices[asked.model]
	for _, other := range asked.others {
		_, isPriced := m.config.Prices[other]
		known = known && isPriced
	}
	known = known && !asked.unclear
	if !known && len(m.config.Prices) > 0 {
		return nil, errors.New("the model is not offered here: ask for another one")
	}
	e := newEstimate(&m.config, api, body, asked)
	return &Call{meter: m, model: asked.model, others: asked.others, priced: known,
		estimate: e.usage(), parts: e}, nil
}

// Handler returns a handler that estimates a request, passes it through limit, and reads the answer
// of next. next is an [httputil.ReverseProxy], or any handler that writes the answer of a model.
// limit is the Handler method of a [nethttp.Limiter] with rules of [ByCount] and [ByPrice], or a
// function that puts several around its argument. Handler panics if an argument is missing.
//
// A request is a POST whose body is one JSON object. It is read before limit sees it, so put
// authentication outside. Others are answered 405, 413, 415 or 400, with a line of text. next gets
// the body as it came. It sees no Accept-Encoding but identity, since a compressed answer cannot be
// read; no Upgrade; and no Expect.
//
// The answer is passed on as it comes, with its flushes. If next returns, or panics as a
// ReverseProxy does when a stream breaks off, the request costs what [Call.Usage] says. An error
// from the model costs nothing. If next sent the request to another server and got no answer, or
// the client left before it, the model may have worked: the estimate stays. So it does after bytes
// that are no HTTP answer, for which a ReverseProxy writes a 502 without a field and a body.
func (m *Meter) Handler(
	api API, limit func(http.Handler) http.Handler, next http.Handler,
) http.Handler {
	if m == nil || m.config.MaxBody == 0 {
		panic("tokens: Meter.Handler: the meter is nil or zero: make one with New")
	}
	if counted[api] == nil || limit == nil || next == nil {
		panic("tokens: Meter.Handler: api, limit and next are required")
	}
	h := &handler{meter: m, api: api, next: next}
	h.limited = limit(http.HandlerFunc(h.serve))
	return h
}

// quarter returns ⌈n/4⌉.
func quarter(n int64) int64 { return n/4 + (n%4+3)/4 }
