package headers

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Writer writes outcomes to response headers. It is safe for concurrent use.
type Writer struct {
	formats     formats
	rules       *rules
	jitter      time.Duration
	promises    bool
	retryAfter  RetryAfter
	maxRetry    int64 // seconds; 0: no bound
	custom      func(http.Header, core.Outcome)
	shadowField string    // canonical; "": none
	plain       bool      // denials say what a saying has, and no more
	refusals    sync.Pool // of *refusal

	ietf   ietf
	drafts drafts
	models models
	x      xRateLimit
}

// New returns a writer for the outcomes of a limiter with these rules. It uses the name of a rule,
// which clients see, the limit and the unit. rules must be in the order of [core.Config].Rules. The
// error reports every mistake in the arguments.
func New[R any](options Options, rules []core.Rule[R]) (*Writer, error) {
	policies := policiesOf(rules)
	if err := errors.Join(options.validate(policies), validatePolicies(policies)); err != nil {
		return nil, err
	}
	return newWriter(options, policies, current), nil
}

func newWriter(options Options, policies []policy, names *parameters) *Writer {
	formats, rules := formatsOf(options), newRules(options, policies)
	return &Writer{
		formats:     formats,
		rules:       rules,
		jitter:      options.Jitter,
		promises:    options.MaxPromise > 0,
		retryAfter:  options.RetryAfter,
		maxRetry:    int64(options.MaxRetryAfter / time.Second),
		custom:      options.Custom,
		shadowField: http.CanonicalHeaderKey(options.ShadowField),
		plain: formats == 1<<IETF && options.Jitter == 0 && options.MaxPromise == 0 &&
			options.MaxRetryAfter == 0 && options.CostParameter == "" && options.PartitionKey == nil,
		ietf:   newIETF(options, rules, names), // before drafts
		drafts: newDrafts(formats, rules),
		models: models{rules, formats},
		x:      xRateLimit{rules, formats},
	}
}

// MustNew is [New] for arguments that the program sets. It panics if they have a mistake.
func MustNew[R any](options Options, rules []core.Rule[R]) *Writer {
	w, err := New(options, rules)
	if err != nil {
		panic(err)
	}
	return w
}

// Write sets the fields for o in h and then calls [Options].Custom. Call it once per request,
// before the response is sent and before the next handler, so that an inner limiter finds the
// fields and adds its own.
//
// On a denial that no wait ends, or whose wait is above [Options].MaxRetryAfter, Write deletes
// Retry-After from h. An outcome with the status 503 gets Retry-After alone. The client's quotas did
// not cause it, so Write also deletes the fields of all formats from h, which an outer limiter may
// have written. Each value is a fresh slice that other code may change or append to.
func (w *Writer) Write(h http.Header, o *core.Outcome) {
	if w.shadowField != "" {
		w.writeShadows(h, o)
	}
	shown := w.showsFields(o)
	switch {
	case !o.Allowed():
		w.writeRefusal(h, o, shown)
	case shown:
		var v values
		var buf [256]byte // a longer text costs one more allocation
		text, _ := w.appendFields(buf[:0], &v, h, o, 0, 0)
		v.set(h, string(text))
	}
	if w.custom != nil && shown {
		w.custom(h, *o)
	}
}

// refusal is the fields of an answer to a request that was not allowed, and what they say. It is
// pooled and written again if the next answer says the same, as most denials of a limiter do for a
// second: saves a seventh of a denial.
type refusal struct {
	says   saying
	values values
	text   string
}

// saying is in what the fields of denials by a limiter's only rule differ, if the options say nothing
// else. A retry of 0 is no saying.
type saying struct{ remaining, window, retry int64 }

// saying returns what the fields of o in h are to say, with a Retry-After. Its retry is 0 if they
// depend on more, or no wait helps.
func (w *Writer) saying(h http.Header, o *core.Outcome, retry int64) saying {
	outer := fieldRateLimit.in(h) != nil || fieldPolicy.in(h) != nil
	if !w.plain || outer || len(w.rules.policies) > 1 || !w.rules.allFixed(o) {
		return saying{}
	}
	d := o.At(0)
	says := saying{d.Remaining, -1, retry}
	if d.EffectiveWindow != limits.Never {
		says.window = ceilSeconds(d.EffectiveWindow)
	}
	return says
}

// writeRefusal is Write for an outcome that is not allowed, without Custom.
func (w *Writer) writeRefusal(h http.Header, o *core.Outcome, shown bool) {
	least, jitter := o.RetryAfter(), w.drawJitter()
	wait := least
	if w.promises {
		wait = o.Turn()
	}
	retry := w.retry(o, wait, jitter)
	jitter += wait - least // a turn moves the fields as jitter does
	var says saying
	if shown {
		says = w.saying(h, o, retry)
	}
	r, _ := w.refusals.Get().(*refusal)
	if r == nil {
		r = new(refusal)
	}
	if says != r.says || says.retry == 0 {
		var buf [256]byte
		r.values.n = 0
		r.text = string(w.appendRefusal(buf[:0], &r.values, h, o, shown, jitter, retry))
		r.says = says
	}
	r.values.set(h, r.text)
	w.refusals.Put(r)
}

// appendRefusal appends the fields of a refusal, of which those of formats if shown is set. It
// deletes from h what the refusal must not have.
func (w *Writer) appendRefusal(text []byte, v *values, h http.Header, o *core.Outcome, shown bool,
	jitter time.Duration, retry int64) []byte {
	if shown {
		text, retry = w.appendFields(text, v, h, o, jitter, retry)
	} else if o.Status() == http.StatusServiceUnavailable {
		Delete(h)
	}
	told := retry > 0 && (w.maxRetry == 0 || retry <= w.maxRetry)
	switch {
	case told:
		text = v.addInteger(fieldRetryAfter, text, retry)
	case retry > 0:
		h[keys[fieldRetryAfter]] = nil // see TooLong
	default:
		delete(h, keys[fieldRetryAfter])
	}
	if shown && w.formats&modelFormats != 0 {
		text = w.models.appendRetry(text, v, o, jitter, retry, told)
	}
	return text
}

// TooLong reports whether a [Writer] has left Retry-After out of h because the wait is above
// [Options].MaxRetryAfter: the field is in the map then, without lines, and is not sent.
func TooLong(h http.Header) bool {
	lines, there := h[keys[fieldRetryAfter]]
	return there && len(lines) == 0
}

// showsFields reports whether the answer to o gets the fields of the formats.
func (w *Writer) showsFields(o *core.Outcome) bool {
	switch o.Verdict() {
	case core.Allowed:
		return w.rules.show == Always
	case core.Denied:
		return w.rules.show != Omit && o.Status() != http.StatusServiceUnavailable
	}
	return false
}

// appendFields appends the fields of all formats. It returns the text and the value of Retry-After:
// retry, raised to the largest t among the rules that did not allow the request (draft -11, section
// 6). A retry of 0 means no Retry-After and stays 0.
func (w *Writer) appendFields(
	text []byte, v *values, h http.Header, o *core.Outcome, jitter time.Duration, retry int64,
) ([]byte, int64) {
	if w.formats.has(IETF) {
		var t int64
		text, t = w.ietf.appendTo(text, v, h, o, jitter)
		if retry > 0 {
			retry = max(retry, t)
		}
	}
	if w.formats == 1<<IETF { // needs no binding rule: saves 5 to 15% of an answer
		return text, retry
	}
	if w.formats&modelFormats != 0 {
		text = w.models.appendTo(text, v, h, o)
	}
	binding := w.rules.binding(o)
	if binding < 0 {
		return text, retry
	}
	d := o.At(binding)
	if w.formats.has(Draft6) || w.formats.has(Draft7) {
		text = w.drafts.appendTo(text, v, h, o, d, retry)
	}
	if w.formats&xFormats != 0 {
		least := int64(0) // of the reset
		if w.jitter > 0 || jitter > 0 {
			least = retry
		}
		text = w.x.appendTo(text, v, h, d, least)
	}
	return text, retry
}

func (w *Writer) drawJitter() time.Duration {
	if w.jitter == 0 {
		return 0
	}
	return time.Duration(rand.Int64N(int64(w.jitter) + 1))
}

// retry returns Retry-After in seconds for o, a denial that is to wait, or 0 if no wait helps.
func (w *Writer) retry(o *core.Outcome, wait, jitter time.Duration) int64 {
	if wait == limits.Never {
		return 0
	}
	if w.retryAfter == Window && o.Verdict() == core.Denied {
		wait = max(wait, w.rules.longestWindow(o))
	}
	return max(1, ceilSeconds(plus(wait, jitter)))
}

// writeShadows adds to h the names of the shadow rules that would have denied o, each as a string
// of RFC 9651.
func (w *Writer) writeShadows(h http.Header, o *core.Outcome) {
	var text []byte
	for i := range o.Len() {
		if d := o.At(i); d.Mode() == core.Shadow && !d.Allowed && d.Source.Counted() {
			text = appendString(separate(text, 0), d.Rule())
		}
	}
	if len(text) > 0 {
		h[w.shadowField] = append(h[w.shadowField], string(text))
	}
}

// Keep returns the fields of w's formats that h has. The adapters call it after [Writer.Write], and
// [Kept.Restore] when the status is written.
func (w *Writer) Keep(h http.Header) (k Kept) {
	last := fields - 1
	if w.formats == 1<<IETF {
		last = fieldPolicy
	}
	for f := fieldRateLimit; f <= last; f++ {
		lines := f.in(h)
		switch {
		case len(lines) != 1:
		case k.n < len(k.few):
			k.few[k.n] = keptLine{f, lines[0]}
			k.n++
		default:
			k.more = append(k.more, keptLine{f, lines[0]})
		}
	}
	return k
}
