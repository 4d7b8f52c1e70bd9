package gate

import (
	"net/http"
	"reflect"
)

// again reports whether g has already charged the request of r for the answer with header h: a
// router has sent it through the same limiter twice. A request with an end is known by its context,
// others by the fields, so that no request pays for a mark. A limiter that shows no fields, or whose
// limits depend on the request, does not recognise a request without an end.
//
// The answer must be the same: a handler may serve several requests of a batch, with answers of
// their own, in the context of one.
func (g *Gate[R]) again(r *http.Request, h http.Header) bool {
	a := g.newest.Load()
	if len(h) > 0 && a.fields.Wrote(h) {
		return true
	}
	if !a.ends {
		return false
	}
	for e := endOf(r.Context()); e != nil; e = e.outer {
		if e.gate == any(g) && reflect.ValueOf(e.answer).Pointer() == reflect.ValueOf(h).Pointer() {
			return true
		}
	}
	return false
}
