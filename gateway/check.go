package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/gateway/internal/grpcdenial"
	"github.com/weir-go/weir/gateway/internal/minutely"
	"github.com/weir-go/weir/nethttp"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// DeniedStatus is the status of the answer to a denied check, 400 to 499. nginx takes every
	// status but 401, 403 and 2xx for an error of this program, so it needs 403; docs/gateway.md
	// says how it becomes 429 again. 0: 429.
	DeniedStatus int

	// Logger gets one line a minute while there are checks that are not believed. No line has
	// a part of a request. nil: the logger that slog.Default returns at that time.
	Logger *slog.Logger
}

// New returns the handler of checks, which limiter decides. proxies are the peers that are
// believed: CIDR ranges, single IP addresses, or "unix" for peers over a unix socket. The
// error reports every mistake in the arguments.
func New(limiter *nethttp.Limiter, proxies []string, o Options) (http.Handler, error) {
	var errs []error
	if limiter == nil {
		errs = append(errs, errors.New("gateway: limiter must not be nil"))
	}
	if len(proxies) == 0 {
		errs = append(errs, errors.New("gateway: proxies must name who is believed"))
	}
	trusted, err := parsePeers(proxies)
	if err != nil {
		errs = append(errs, err)
	}
	if o.DeniedStatus != 0 && (o.DeniedStatus < 400 || o.DeniedStatus > 499) {
		errs = append(errs, fmt.Errorf("gateway: DeniedStatus must be 400 to 499 (got %d)", o.DeniedStatus))
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return &check{
		trusted:      trusted,
		deniedStatus: o.DeniedStatus,
		decide:       limiter.Handler(http.HandlerFunc(allow)),
		refused: minutely.Log{
			Logger: o.Logger, Level: slog.LevelWarn,
			Text: "gateway: a check is not believed, and is answered 503",
		},
	}, nil
}

func allow(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// MustNew is [New] for arguments that the program sets. It panics if they have a mistake.
func MustNew(limiter *nethttp.Limiter, proxies []string, o Options) http.Handler {
	h, err := New(limiter, proxies, o)
	if err != nil {
		panic(err)
	}
	return h
}

type check struct {
	trusted      peers
	deniedStatus int // 0: as it is
	decide       http.Handler
	refused      minutely.Log
}

// ServeHTTP answers a check. The body of the check is not read.
func (c *check) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	original, err := c.trusted.original(r)
	if err != nil {
		c.refused.Note(err)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "This check is not believed.", http.StatusServiceUnavailable)
		return
	}
	if bare := original.Method == http.MethodHead && r.Method != http.MethodHead; bare || c.deniedStatus != 0 {
		w = &answer{w, c.deniedStatus, bare}
	}
	if grpcdenial.Asked(original) {
		call := &callAnswer{ResponseWriter: w}
		c.decide.ServeHTTP(call, original)
		call.finish(original)
		return
	}
	c.decide.ServeHTTP(w, original)
}

// callAnswer makes a denial one of a call of gRPC. It passes on another answer.
type callAnswer struct {
	http.ResponseWriter
	denied int // the status of a denial, which is held back; 0: no denial
	body   bytes.Buffer
}

// Unwrap returns the writer of the check.
func (w *callAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader holds back the status of a denial.
func (w *callAnswer) WriteHeader(status int) {
	switch {
	case w.denied != 0:
	case status >= http.StatusBadRequest:
		w.denied = status
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write holds back the body of a denial.
func (w *callAnswer) Write(p []byte) (int, error) {
	if w.denied != 0 {
		return w.body.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// finish writes the denial that was held back.
func (w *callAnswer) finish(r *http.Request) {
	if w.denied != 0 {
		grpcdenial.Set(w.Header(), r, w.denied, w.body.Bytes())
		w.ResponseWriter.WriteHeader(w.denied)
	}
}

// answer makes the answer to a check of the answer to the original request.
type answer struct {
	http.ResponseWriter
	deniedStatus int  // in place of 429; 0: 429
	bare         bool // the original request is a HEAD, so its answer announces a body and sends none
}

// Unwrap returns the writer of the check.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the status of the answer to the check.
func (w *answer) WriteHeader(status int) {
	if status == http.StatusTooManyRequests && w.deniedStatus != 0 {
		status = w.deniedStatus
	}
	if w.bare { // a proxy would wait for the body, and fail
		delete(w.Header(), "Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Suits returns nil if a check can decide by all rules. Otherwise its error names each rule
// that needs the end of the request, of which a check sees nothing.
func Suits[R any](rules []core.Rule[R]) error {
	var errs []error
	mistake := func(rule core.Rule[R], why string) {
		errs = append(errs, fmt.Errorf("gateway: rule %q: %s", rule.Name, why))
	}
	for _, rule := range rules {
		switch {
		case rule.Mode == core.Disabled:
		case rule.Limit.Algorithm().Holds():
			mistake(rule, "a check sees no end of the request: limit a rate, or put "+
				"`algorithm: concurrent` into a file of limits by descriptors, whose proxy tells the end")
		case rule.FinalCost != nil:
			mistake(rule, "a check sees no answer, so it cannot know the final cost: remove it, "+
				"and the rule counts successes, too, or use a file of limits by descriptors, whose proxy can tell the cost")
		}
	}
	return errors.Join(errs...)
}
