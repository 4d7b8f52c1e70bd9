package simulate

import (
	"context"
	"slices"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/core"
)

// source is a log with its next two requests.
type source struct {
	log     *accesslog.Log
	request *request
	item    *item // nil: end of the log
	after   *item // nil: none
}

// at returns the time that s is merged by: that of its next request. If the clock was far ahead for
// one line, it is the time of the request after that.
func (s *source) at() int64 {
	if s.after != nil && s.after.at < s.item.at-window*second {
		return s.after.at
	}
	return s.item.at
}

// read reads all logs, merged by time.
func (r *run) read(ctx context.Context) error {
	var rules []core.Rule[*request]
	for _, side := range r.sides {
		rules = append(rules, side.rules...)
	}
	advance := func(s *source) {
		s.item, s.after = s.after, nil
		for s.log.Next(s.request.entry) {
			if s.request.set() {
				s.after = r.order.fresh()
				s.after.read(s.request, rules, r.keys)
				return
			}
			s.log.Reject()
		}
	}
	var sources []*source
	for _, l := range r.logs {
		if l.Format() == "" {
			continue
		}
		entry := &accesslog.Entry{Extra: make([]string, len(r.known.Extras))}
		s := &source{log: l, request: newRequest(entry, r.known.Extras)}
		advance(s)
		if advance(s); s.item != nil {
			sources = append(sources, s)
		}
	}
	for n := 0; len(sources) > 0; n++ {
		if n%batchSize == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.order.tapes.failure(); err != nil {
				return err
			}
			if r.stop && r.tooMany.Load() {
				return errTooMany
			}
			if r.progress != nil && n%(64*batchSize) == 0 {
				r.progress()
			}
		}
		earliest := 0
		for i, s := range sources[1:] {
			if s.at() < sources[earliest].at() {
				earliest = i + 1
			}
		}
		s := sources[earliest]
		r.order.push(s.item)
		if advance(s); s.item == nil {
			sources = slices.Delete(sources, earliest, earliest+1)
		}
	}
	return nil
}
